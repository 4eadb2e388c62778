package meta_test

import (
	"encoding/json"
	"testing"

	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// FuzzRestore: whatever a container's annotations hold, what is malformed reads as zero and
// is named, and the rest is valid (2.3, 2.6).
func FuzzRestore(f *testing.F) {
	f.Add("30", "3", "Sidecar", `{"exec":{"command":["x"]}}`, `[{"containerPort":80}]`)
	f.Add("-9223372036854775809", "99999999999", "odd", `{"httpGet":{"port":[]}}`, `[null]`)
	f.Add("", "1e3", "", `null`, `{}`)
	f.Fuzz(func(t *testing.T, grace, index, kind, preStop, ports string) {
		r, err := meta.Restore(map[string]string{
			meta.AnnotationPodDeletionGrace: grace, meta.AnnotationPodTerminationGrace: grace, meta.AnnotationIndex: index,
			meta.AnnotationKind: kind, meta.AnnotationPreStopHandler: preStop, meta.AnnotationPorts: ports,
		})
		switch r.Kind {
		case meta.App, meta.Init, meta.Sidecar, meta.Ephemeral:
		default:
			t.Errorf("kind %q", r.Kind)
		}
		complete := r.DeletionGrace != nil && r.TerminationGrace != nil && json.Valid([]byte(preStop)) && json.Valid([]byte(ports))
		if err == nil && !complete {
			t.Errorf("%+v without an error", r)
		}
		if err != nil && json.Valid([]byte(preStop)) && r.DeletionGrace != nil && len(err.Error()) > 4096+4*(len(index)+len(preStop)+len(ports)) {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
