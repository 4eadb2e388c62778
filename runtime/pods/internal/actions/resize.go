package actions

import "github.com/podwright/podwright/runtime"

// Resize is what the resources of one running container need. The caller decides it by
// comparing allocated with actuated resources (spec/runtime.md 21); here it is weighed
// against other reasons to restart the container.
type Resize uint8

// Resizes. The zero value means that the container has what it should have.
const (
	ResizeNone Resize = iota
	// ResizeInPlace: the container's resources are to be updated while it runs.
	ResizeInPlace
	// ResizeRestart: only a restart gives the container its new resources. A
	// regular init container is never restarted for this: it is left to end.
	ResizeRestart
)

// resize returns what container id asks for.
func (in *Input) resize(id runtime.ContainerID) Resize {
	if in.Resizes == nil {
		return ResizeNone
	}
	return in.Resizes[id]
}
