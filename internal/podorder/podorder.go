package podorder

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/podwright/podwright/runtime"
)

// Status puts the objects of a status in order and sets its addresses.
func Status(status *runtime.PodStatus) {
	slices.SortFunc(status.Sandboxes, func(a, b *runtime.SandboxStatus) int {
		return sandboxes(a.Attempt, b.Attempt, a.CreatedAt, b.CreatedAt, a.ID, b.ID)
	})
	sortRuns(status.Containers, func(c *runtime.ContainerStatus) run {
		return run{c.Name, c.State == runtime.Running, c.CreatedAt, c.ID.ID}
	}, func(c *runtime.ContainerStatus) int { return c.RestartCount })
	status.IPs = Addresses(status.Sandboxes)
}

// Pod puts the objects of a listed pod in order.
func Pod(pod *runtime.Pod) {
	slices.SortFunc(pod.Sandboxes, func(a, b *runtime.Sandbox) int {
		return sandboxes(a.Attempt, b.Attempt, a.CreatedAt, b.CreatedAt, a.ID, b.ID)
	})
	sortRuns(pod.Containers, func(c *runtime.Container) run {
		return run{c.Name, c.State == runtime.Running, c.CreatedAt, c.ID.ID}
	}, number)
}

// number is the restart count of a listed container, by which statuses are ordered too. The attempt may be higher, because a run
// skips names that the runtime has reserved, so it counts only if there is nothing else.
func number(c *runtime.Container) int {
	if n, ok := RestartCount(c.Annotations); ok {
		return n
	}
	return int(c.Attempt)
}

// RestartCount returns the restart count that a container's annotations name, if they name one. A status has 32 bits for it, and
// later runs need room.
func RestartCount(annotations map[string]string) (n int, ok bool) {
	count, err := strconv.ParseInt(annotations[runtime.AnnotationRestartCount], 10, 31)
	return int(count), err == nil && count >= 0
}

// sandboxes orders latest first (spec/runtime.md 1.3).
func sandboxes(attemptA, attemptB uint32, createdA, createdB time.Time, idA, idB string) int {
	return cmp.Or(cmp.Compare(attemptB, attemptA), createdB.Compare(createdA), cmp.Compare(idA, idB))
}

// run is what the order of containers depends on.
type run struct {
	name    string
	running bool
	created time.Time
	id      string
}

// sortRuns orders containers newest first, ties by ID so that the order is total. Runs of one name then
// change places until the latest is first, because otherwise it is started again beside that (spec/runtime.md 1.3): a clock that
// was set back makes it look older than the run before it, and if lists lacked that run when it was made, so does its number. So a run
// that goes on comes before all that have ended.
func sortRuns[C any](list []C, of func(C) run, number func(C) int) {
	newer := func(a, b run) int { return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.id, b.id)) }
	latest := func(c, d C) int {
		a, b := of(c), of(d)
		if a.running != b.running {
			if a.running {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(number(d), number(c)), newer(a, b))
	}
	slices.SortFunc(list, func(a, b C) int { return newer(of(a), of(b)) })
	before, ordered := map[string]C{}, true
	for _, c := range list {
		name := of(c).name
		if b, known := before[name]; known && latest(b, c) > 0 {
			ordered = false
		}
		before[name] = c
	}
	for i := 0; !ordered && i < len(list); i++ { // seldom, so that a crowd of containers costs no more than the sort
		for j := i + 1; j < len(list); j++ {
			if of(list[i]).name == of(list[j]).name && latest(list[i], list[j]) > 0 {
				list[i], list[j] = list[j], list[i]
			}
		}
	}
}

// Addresses returns the addresses of the latest sandbox, the first one, if it is ready. One
// unparsable address makes the list empty. A sandbox on the host network has none of its own: some runtimes
// return those that the node had when the sandbox was made (spec/runtime.md 1.7).
func Addresses(list []*runtime.SandboxStatus) []string {
	if len(list) == 0 || list[0].State != runtime.Running || list[0].IP == "" || list[0].HostNetwork {
		return nil
	}
	ips := append([]string{list[0].IP}, list[0].AdditionalIPs...)
	for _, ip := range ips {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil
		}
	}
	return ips
}
