package answers

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Older reports whether the version a of an object is older than b. It also returns true if they cannot be compared.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order < 0
}
