package pullrecords

import (
	"fmt"
	"slices"
	"strings"
)

// Policy says for which images pods must show credentials (spec/runtime.md 9.9).
type Policy struct {
	// Verify is one of the constants; empty is [PreloadedExempt].
	Verify string
	// Exempt are the repositories of [Allowlisted]: exact names, or a prefix
	// with a trailing /*; normalized, without tag and digest.
	Exempt []string
}

// Which images are verified, in the words of the kubelet's configuration.
const (
	// Nothing verifies no image.
	Nothing = "NeverVerify"
	// PreloadedExempt verifies the images that the engine has pulled.
	PreloadedExempt = "NeverVerifyPreloadedImages"
	// Allowlisted verifies all but the exempt repositories.
	Allowlisted = "NeverVerifyAllowlistedImages"
	// Everything verifies all images.
	Everything = "AlwaysVerify"
)

// Check reports what is wrong with the policy.
func (p Policy) Check() error {
	switch p.Verify {
	case "", Nothing, PreloadedExempt, Everything:
		if len(p.Exempt) > 0 {
			return fmt.Errorf("a list of exempt repositories needs the policy %s", Allowlisted)
		}
		return nil
	case Allowlisted:
	default:
		return fmt.Errorf("policy %q is unknown", p.Verify)
	}
	for _, e := range p.Exempt {
		name := strings.TrimSuffix(e, "/*")
		if name == "" || strings.ContainsAny(name, "*@ ") || strings.LastIndexByte(name, ':') > strings.LastIndexByte(name, '/') && strings.Contains(name, "/") {
			return fmt.Errorf("exempt repository %q: want a name without tag and digest, or a prefix that ends with /*", e)
		}
	}
	return nil
}

// applies reports whether credentials are needed for an image of a repository;
// pulled is true if the engine has pulled it.
func (p Policy) applies(repository string, pulled bool) bool {
	switch p.Verify {
	case Nothing:
		return false
	case Everything:
		return true
	case Allowlisted:
		return !slices.ContainsFunc(p.Exempt, func(e string) bool {
			if prefix, ok := strings.CutSuffix(e, "*"); ok {
				return strings.HasPrefix(repository, prefix)
			}
			return repository == e
		})
	}
	return pulled
}
