// Package criconfig builds the requests a runtime gets for a pod: the sandbox
// configuration and each container's configuration. Every function is pure: what
// comes from the node, the image or the disk is passed in as a value.
//
//	v1.Pod, Node ─────────────────────────────► Sandbox ──► PodSandboxConfig
//	v1.Container, Environment, image, mounts ─► Container ► ContainerConfig
package criconfig
