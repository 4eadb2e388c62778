package recovery

import (
	"fmt"

	"github.com/podwright/podwright/status"
)

// CheckSinks returns what is wrong with the sinks of an engine: one is missing, or one that keeps
// statuses has no name of its own. What each has is recorded under its name, and otherwise told
// apart only by the order, which may be another after a restart.
func CheckSinks(sinks []status.StatusSink) (problems []error) {
	first := map[string]int{}
	for i, s := range sinks {
		if s == nil {
			problems = append(problems, fmt.Errorf("Observe.Sinks[%d] is nil", i))
			continue
		}
		named, ok := s.(interface{ Name() string })
		switch {
		case !ok && keeps(s):
			problems = append(problems, fmt.Errorf("Observe.Sinks[%d], a %T, keeps what it has across a restart, and that is recorded by its name: give it a method Name() string", i, s))
			continue
		case !ok:
			continue
		}
		name := named.Name()
		earlier, again := first[name]
		switch {
		case !again:
			first[name] = i
		case keeps(s) || keeps(sinks[earlier]):
			problems = append(problems, fmt.Errorf("Observe.Sinks[%d] and [%d] are both named %q, and what such a sink has is recorded by its name: give one another name", earlier, i, name))
		}
	}
	return problems
}

// keeps reports whether a sink still has after a restart what it had before.
func keeps(s status.StatusSink) bool {
	if p, ok := s.(status.Persistent); ok {
		return p.Persistent()
	}
	_, reads := s.(status.PodReader)
	return reads
}
