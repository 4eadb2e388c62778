package podinfo

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// PullPolicy returns the default pull policy for an image: Always if its tag is latest, or if it has neither tag nor digest
// (spec/runtime.md 9.1). A folder, which some runtimes run, cannot be pulled: an absolute path is IfNotPresent.
func PullPolicy(image string) v1.PullPolicy {
	if strings.HasPrefix(image, "/") {
		return v1.PullIfNotPresent
	}
	name, _, digest := strings.Cut(image, "@")
	name = name[strings.LastIndexByte(name, '/')+1:] // a colon before it is a port
	_, tag, tagged := strings.Cut(name, ":")
	if tag == "latest" || !tagged && !digest {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}
