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

// Annotations on containers that a [ContainerStatus] repeats as fields
// (spec/runtime.md 2.2).
const (
	AnnotationHash         = "io.kubernetes.container.hash"
	AnnotationRestartCount = "io.kubernetes.container.restartCount"
)
