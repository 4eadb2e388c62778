package runtimetest

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerAnswers: changes that the caller makes to a status have no effect. The objects of lists are read-only,
// because lists may share them (cri.RuntimeService).
func containerAnswers(e *env) {
	s := e.sandbox()
	id := e.create(s, Program{}, func(c *runtimeapi.ContainerConfig) { c.Annotations = awkwardAnnotations() })
	e.answersAreOurs("ContainerStatus", func() proto.Message { return e.status(id) })
	e.answersAreOurs("PodSandboxStatus", func() proto.Message { return e.sandboxStatus(s.id) })
}

// answersAreOurs changes every field of an answer and asks again.
func (e *env) answersAreOurs(method string, ask func() proto.Message) {
	e.Helper()
	answer := ask()
	before := proto.Clone(answer)
	scribble(answer.ProtoReflect())
	if field := difference(before.ProtoReflect(), ask().ProtoReflect()); field != "" {
		e.Errorf("the runtime's state follows changes of its answers: %s of %s", field, method)
	}
}

// scribble changes every field that is set.
func scribble(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, value protoreflect.Value) bool {
				v.Map().Set(k, changed(field.MapValue(), value))
				return true
			})
		case field.IsList():
			for i := range v.List().Len() {
				v.List().Set(i, changed(field, v.List().Get(i)))
			}
		default:
			m.Set(field, changed(field, v))
		}
		return true
	})
}

// changed returns another value for a field; messages are changed in place.
func changed(field protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.MessageKind:
		scribble(v.Message())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("changed")
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!v.Bool())
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(v.Int() + 1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(v.Int()) + 1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(v.Uint()) + 1)
	}
	return v
}

// difference returns the path of a field in which two messages differ, "" if they are equal.
func difference(a, b protoreflect.Message) string {
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		name := string(field.Name())
		va, vb := a.Get(field), b.Get(field)
		if va.Equal(vb) {
			continue
		}
		switch {
		case field.IsMap():
			va.Map().Range(func(k protoreflect.MapKey, value protoreflect.Value) bool {
				if other := vb.Map().Get(k); other.IsValid() && other.Equal(value) {
					return true
				}
				name = fmt.Sprintf("%s[%q]", name, k.String())
				return false
			})
		case field.Kind() == protoreflect.MessageKind && !field.IsList():
			if inner := difference(va.Message(), vb.Message()); inner != "" {
				name += "." + inner
			}
		}
		return name
	}
	return ""
}
