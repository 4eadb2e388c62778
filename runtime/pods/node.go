package pods

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/userns"
)

// RuntimeClass is a way of running pods that the runtime offers.
type RuntimeClass struct {
	// Handler is the runtime's name for it. Empty: its default.
	Handler string
	// Overhead is what a pod of this class uses besides its containers. It applies
	// to pods whose spec names no overhead.
	Overhead v1.ResourceList
}

// RuntimeClassGetter knows the runtime classes. It is asked when a pod's sandbox
// is made, from many goroutines, and must not block.
type RuntimeClassGetter interface {
	// RuntimeClass returns the class of this name, or an error that says why
	// there is none. It is called from many goroutines and must not block.
	RuntimeClass(name string) (RuntimeClass, error)
}

// Values of Options.CgroupDriver.
const (
	cgroupfsDriver = "cgroupfs"
	systemdDriver  = "systemd"
)

// MemoryQoS throttles and protects memory on cgroup v2 (spec/runtime.md 13.6).
type MemoryQoS struct {
	Enabled bool
	// ThrottlingFactor says where between request and limit a container is slowed
	// down: above 0, at most 1. 0 means 0.9.
	ThrottlingFactor float64
	// TieredReservation protects requests from reclaim: hard for Guaranteed pods,
	// softly for Burstable ones.
	TieredReservation bool
}

// UserNamespaces is the pool of user IDs for pods with hostUsers: false
// (spec/runtime.md 3.7). Every pod gets one range of Length IDs.
type UserNamespaces struct {
	// Length is the size of a range, a multiple of 65536. 0 means 65536.
	Length uint32
	// User is the user whose range in /etc/subuid and /etc/subgid is the pool, as for the
	// kubelet, unless First is set; a number if these files use numbers. Both files must have
	// the same single line for it, with multiples of Length; anything else is an error.
	// Without a line the pool is all IDs from Length on. Default "kubelet".
	User string
	// First is the first ID of the pool, a multiple of Length. 0 means that of the User's
	// range, or Length: lower IDs are the node's own and are never given out.
	First uint32
	// Pods is the number of ranges, which should cover the node's pod limit. 0
	// means 1024, or as many as the User's range has if these are fewer.
	Pods int
}

const (
	defaultCPUQuotaPeriod   = 100 * time.Millisecond
	minCPUQuotaPeriod       = time.Millisecond
	maxCPUQuotaPeriod       = time.Second
	defaultThrottlingFactor = 0.9
	defaultUserRange        = 65536
	defaultUserPods         = 1024
	// defaultIDUser is the kubelet's name for itself.
	defaultIDUser = "kubelet"
)

// completeNode fills in and checks what describes the node.
func (o *Options) completeNode() error {
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for i, s := range o.ClusterDNS {
		if _, err := netip.ParseAddr(s); err != nil {
			problem("ClusterDNS[%d]: %w", i, err)
		}
	}
	switch o.CgroupDriver {
	case "", cgroupfsDriver, systemdDriver:
	default:
		problem("CgroupDriver %q is neither cgroupfs nor systemd", o.CgroupDriver)
	}
	if o.CgroupRoot == "" {
		o.CgroupRoot = "/"
	}
	if !filepath.IsAbs(o.CgroupRoot) || filepath.Clean(o.CgroupRoot) != o.CgroupRoot {
		problem("CgroupRoot %q is not a clean absolute path", o.CgroupRoot)
	}
	if o.CPUQuotaPeriod == 0 {
		o.CPUQuotaPeriod = defaultCPUQuotaPeriod
	}
	if o.CPUQuotaPeriod < minCPUQuotaPeriod || o.CPUQuotaPeriod > maxCPUQuotaPeriod {
		problem("CPUQuotaPeriod %s is not between %s and %s", o.CPUQuotaPeriod, minCPUQuotaPeriod, maxCPUQuotaPeriod)
	}
	if o.MemoryQoS.ThrottlingFactor == 0 {
		o.MemoryQoS.ThrottlingFactor = defaultThrottlingFactor
	}
	if f := o.MemoryQoS.ThrottlingFactor; !(f > 0 && f <= 1) {
		problem("MemoryQoS.ThrottlingFactor %v is not above 0 and at most 1", f)
	}
	if o.Machine == nil {
		machine := ExamineMachine()
		o.Machine = &machine
	}
	problems = append(problems, o.UserNamespaces.complete(o.Machine))
	return errors.Join(problems...)
}

func (u *UserNamespaces) complete(machine *Machine) error {
	if u.Length == 0 {
		u.Length = defaultUserRange
	}
	if u.Length%defaultUserRange != 0 {
		return fmt.Errorf("UserNamespaces.Length %d is not a multiple of %d", u.Length, defaultUserRange)
	}
	most := int64(1 << 32)
	if u.First == 0 {
		delegated, err := u.delegated(machine)
		if err != nil {
			return err
		}
		u.First = u.Length
		if delegated.Count > 0 {
			u.First, most = delegated.First, int64(delegated.Count)
		}
	}
	if u.First%u.Length != 0 {
		return fmt.Errorf("UserNamespaces.First %d is not a multiple of Length %d", u.First, u.Length)
	}
	// The last 32-bit ID means "none" to the kernel.
	room := min(1<<32-1-int64(u.First), most) / int64(u.Length)
	switch {
	case u.Pods < 0:
		return fmt.Errorf("UserNamespaces.Pods %d is negative", u.Pods)
	case u.Pods == 0:
		u.Pods = int(min(defaultUserPods, room))
	}
	if int64(u.Pods) > room || room == 0 {
		return fmt.Errorf("UserNamespaces: %d ranges of %d IDs from %d on are more than the node or /etc/subuid has", u.Pods, u.Length, u.First)
	}
	return nil
}

// delegated returns the IDs that the node's files give to the user, none if they do not name it.
func (u *UserNamespaces) delegated(machine *Machine) (userns.Range, error) {
	user := cmp.Or(u.User, defaultIDUser)
	r, found, err := userns.Delegated(machine.SubUIDs, machine.SubGIDs, user)
	switch {
	case err != nil:
		return userns.Range{}, fmt.Errorf("UserNamespaces: %w", err)
	case found && (r.First < u.Length || r.First%u.Length != 0 || r.Count < u.Length || r.Count%u.Length != 0):
		return userns.Range{}, fmt.Errorf("UserNamespaces: /etc/subuid gives user %q %d IDs from %d on; both numbers must be multiples of Length %d, and not 0",
			user, r.Count, r.First, u.Length)
	}
	return r, nil
}

// describeNode gathers what configurations take from the node.
func (o *Options) describeNode() criconfig.Node {
	machine := o.Machine
	node := criconfig.Node{
		Owner:          o.OwnerID,
		ClusterDomain:  o.ClusterDomain,
		MemoryCapacity: o.MemoryCapacity,
		CPUQuota:       !o.NoCPUQuota,
		CPUPeriod:      o.CPUQuotaPeriod.Microseconds(),
		CgroupV2:       machine.CgroupV2,
		HugePageSizes:  machine.HugePageSizes,
		NoHugetlb:      machine.NoHugetlb,
		SwapCapacity:   machine.SwapCapacity,
		LimitedSwap:    o.LimitedSwap,
		SwapController: machine.SwapController,
		PageSize:       machine.PageSize,
		SeccompDefault: o.SeccompDefault,
		SeccompDir:     filepath.Join(o.RootDir, "seccomp"),
		ThermalPaths:   machine.MaskedPaths,
		Sysctls:        o.DefaultSysctls,
		CgroupRoot:     o.CgroupRoot,
		PodCgroups:     o.CgroupDriver != "",
		SystemdCgroups: o.CgroupDriver == systemdDriver,
	}
	if o.OwnerID != "" {
		node.RootDir = o.RootDir
	}
	if node.MemoryCapacity == 0 {
		node.MemoryCapacity = machine.MemoryCapacity
	}
	if node.PageSize == 0 {
		node.PageSize = 4096
	}
	if o.MemoryQoS.Enabled {
		node.MemoryFactor = o.MemoryQoS.ThrottlingFactor
		node.TieredReservation = o.MemoryQoS.TieredReservation
	}
	return node
}
