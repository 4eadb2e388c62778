package admission

import "slices"

// ControlNames are the names of the controls of the Pod Security Standards.
func ControlNames() (names []string) {
	for _, c := range slices.Concat(baseline, restricted) {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
