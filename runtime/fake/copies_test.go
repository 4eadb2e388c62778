package fake

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestCopiesHaveEveryField: a field that a later CRI adds to a message is copied too.
func TestCopiesHaveEveryField(t *testing.T) {
	for _, m := range []proto.Message{&runtimeapi.ContainerMetadata{}, &runtimeapi.PodSandboxMetadata{}, &runtimeapi.ImageSpec{}} {
		fillIn(t, m.ProtoReflect())
		var got proto.Message
		switch m := m.(type) {
		case *runtimeapi.ContainerMetadata:
			got = copyContainerMetadata(m)
		case *runtimeapi.PodSandboxMetadata:
			got = copySandboxMetadata(m)
		case *runtimeapi.ImageSpec:
			got = copyImage(m)
			got.(*runtimeapi.ImageSpec).Annotations["added"] = ""
			if _, shared := m.Annotations["added"]; shared {
				t.Error("the copy shares its annotations")
			}
			delete(got.(*runtimeapi.ImageSpec).Annotations, "added")
		}
		if !proto.Equal(got, m) {
			t.Errorf("%v was copied as %v", m, got)
		}
	}
}

// fillIn gives each field a value that is not zero.
func fillIn(t *testing.T, m protoreflect.Message) {
	t.Helper()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("key").MapKey(), protoreflect.ValueOfString("value"))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("text"))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(7))
		default:
			t.Fatalf("%s: fillIn knows no value for a field of kind %s", f.FullName(), f.Kind())
		}
	}
}
