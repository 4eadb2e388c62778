package runtime

// Labels on sandboxes and containers. They are the kubelet's, so that crictl and
// monitoring agents work (spec/runtime.md 2.1).
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"

	// LabelOwner names the engine that made the object, if it has an owner ID
	// (spec/runtime.md 1.9).
	LabelOwner = "podwright.io/owner"
)

// AnnotationRootDir on a sandbox is the RootDir of the engine that made it, if that
// engine has an owner ID: another engine of the same owner checks there whether the
// maker still runs (spec/runtime.md 1.10).
const AnnotationRootDir = "podwright.io/root-dir"

// Annotations on containers that a [ContainerStatus] repeats as fields
// (spec/runtime.md 2.2).
const (
	AnnotationHash         = "io.kubernetes.container.hash"
	AnnotationRestartCount = "io.kubernetes.container.restartCount"
)
