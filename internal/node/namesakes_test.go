package node

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/syncloop"
)

// TestWhoKeepsItsName (N6, ND2): a running pod that no source has named keeps its name, if another source than that of the
// waiting pod may want it.
func TestWhoKeepsItsName(t *testing.T) {
	undecided := errors.New("a manifest is unreadable")
	for name, test := range map[string]struct {
		owner       string
		maybeWanted bool
		sources     []syncloop.SourceStatus
		want        bool
	}{
		"of an undecided source":            {"file", true, []syncloop.SourceStatus{{Name: "http"}, {Name: "file", Undecided: undecided}}, true},
		"of the waiting pod's source":       {"http", true, []syncloop.SourceStatus{{Name: "http", Undecided: undecided}, {Name: "file", Undecided: undecided}}, false},
		"without a record":                  {"", true, []syncloop.SourceStatus{{Name: "http"}, {Name: "file", Undecided: undecided}}, true},
		"without a record, of no other one": {"", true, []syncloop.SourceStatus{{Name: "http", Undecided: undecided}, {Name: "file"}}, false},
		"of a source that has dropped it":   {"file", false, []syncloop.SourceStatus{{Name: "http"}, {Name: "file", Undecided: undecided}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := Namesakes{
				Owner: func(types.UID) (*v1.Pod, string) { return nil, test.owner },
				MaybeWanted: func(types.UID) (none cleanup.Denial) {
					if test.maybeWanted {
						return rule.InUse.Because("a source may want it")
					}
					return none
				},
				Sources: func() []syncloop.SourceStatus { return test.sources },
			}
			waiting := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{podinfo.AnnotationSource: "http"}}}
			if got := n.Spared("running", waiting); got != test.want {
				t.Errorf("spared: %t", got)
			}
		})
	}
}
