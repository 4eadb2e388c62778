package criconfig

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// validID reports whether a number can be a user's or a group's, by the API's
// rule.
func validID(id int64) bool { return id >= 0 && id <= math.MaxInt32 }

// checkIDs refuses a pod's impossible users and groups.
func checkIDs(sc *v1.PodSecurityContext) error {
	for _, f := range []struct {
		name string
		id   *int64
	}{{"runAsUser", sc.RunAsUser}, {"runAsGroup", sc.RunAsGroup}, {"fsGroup", sc.FSGroup}} {
		if f.id != nil && !validID(*f.id) {
			return fmt.Errorf("%s %d is not a number from 0 to %d", f.name, *f.id, math.MaxInt32)
		}
	}
	for _, g := range sc.SupplementalGroups {
		if !validID(g) {
			return fmt.Errorf("supplementalGroups: %d is not a number from 0 to %d", g, math.MaxInt32)
		}
	}
	return nil
}

// checkSecurity refuses a container's security context that contradicts itself, with a
// clear error where a runtime would only fail or start the container with less than it
// asks for.
func checkSecurity(psc *v1.PodSecurityContext, sc *v1.SecurityContext) error {
	if err := checkIDs(psc); err != nil {
		return err
	}
	if err := checkIDs(&v1.PodSecurityContext{RunAsUser: sc.RunAsUser, RunAsGroup: sc.RunAsGroup}); err != nil {
		return err
	}
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
		if isTrue(sc.Privileged) {
			return errors.New("allowPrivilegeEscalation: false contradicts privileged: true")
		}
		if sc.Capabilities != nil && slices.ContainsFunc(sc.Capabilities.Add, func(c v1.Capability) bool { return c == "SYS_ADMIN" || c == "CAP_SYS_ADMIN" }) {
			return errors.New("allowPrivilegeEscalation: false contradicts the capability SYS_ADMIN")
		}
	}
	if sc.ProcMount != nil && *sc.ProcMount != v1.DefaultProcMount && *sc.ProcMount != v1.UnmaskedProcMount {
		return fmt.Errorf("procMount %q is neither Default nor Unmasked", *sc.ProcMount)
	}
	if sc.Capabilities != nil {
		for _, c := range append(slices.Clone(sc.Capabilities.Add), sc.Capabilities.Drop...) {
			if !capabilityName(string(c)) {
				return fmt.Errorf("capabilities: %q is not the name of one", c)
			}
		}
	}
	return nil
}

func capabilityName(name string) bool {
	for _, r := range name {
		if !(r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_') {
			return false
		}
	}
	return name != ""
}

// checkResources refuses amounts that no machine can give (edge of
// spec/runtime.md 13): negative ones, a request above its limit, huge pages of a
// size this machine does not have.
func checkResources(what string, r v1.ResourceRequirements, node Node) error {
	for _, list := range []struct {
		name string
		of   v1.ResourceList
	}{{"requests", r.Requests}, {"limits", r.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(list.of)) {
			q := list.of[name]
			if q.Sign() < 0 {
				return fmt.Errorf("%s: %s.%s %s is negative", what, list.name, name, q.String())
			}
			size, huge := hugePageSize(name)
			if huge && q.Sign() > 0 && !slices.Contains(node.HugePageSizes, size) {
				return fmt.Errorf("%s: %s.%s: this machine has no huge pages of that size", what, list.name, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		q := r.Requests[name]
		if l, ok := r.Limits[name]; ok && q.Cmp(l) > 0 {
			return fmt.Errorf("%s: requests.%s %s is above the limit %s", what, name, q.String(), l.String())
		}
	}
	return nil
}
