package stats

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// usage is what the kernel counts for a cgroup and those below it. Nil means that it does not count this.
type usage struct {
	at  time.Time
	cpu *uint64 // nanoseconds

	memory, workingSet, rss, cache    *uint64 // bytes
	pageFaults, majorPageFaults, swap *uint64
	cpuPSI, memoryPSI, ioPSI          *stats.PSIStats
	processes                         *uint64

	periods, throttled, throttledFor *uint64 // of the CPU quota; throttledFor in nanoseconds
	io                               []deviceIO
}

// deviceIO is what was read from and written to a block device.
type deviceIO struct {
	number                                 string // MAJOR:MINOR
	readBytes, writtenBytes, reads, writes uint64
}

// facts selects which parts of a [usage] are read.
type facts uint8

const (
	cpuTime facts = 1 << iota
	// memoryUse is memory and workingSet, which needs memoryKinds.
	memoryUse
	// memoryKinds is the breakdown of memory, and swap.
	memoryKinds
	swapUse
	processes
	pressures
	throttling
	devices
)

// usage reads a cgroup. What it does not have stays nil.
func (h *hierarchy) usage(cgroup string, want facts, now time.Time) usage {
	u := usage{at: now}
	if want&memoryUse != 0 {
		want |= memoryKinds
	}
	if h.Unified() {
		h.readV2(&u, cgroup, want)
	} else {
		h.readV1(&u, cgroup, want)
	}
	if want&processes != 0 {
		u.processes = h.number("pids", cgroup, "pids.current")
	}
	return u
}

func (h *hierarchy) readV1(u *usage, cgroup string, want facts) {
	if want&cpuTime != 0 {
		u.cpu = h.number("cpuacct", cgroup, "cpuacct.usage")
	}
	if want&memoryUse != 0 {
		u.memory = h.number("memory", cgroup, "memory.usage_in_bytes")
	}
	if want&(memoryKinds|swapUse) != 0 {
		var inactive uint64
		if text, ok := h.read("memory", cgroup, "memory.stat"); ok {
			keyed(text, map[string]**uint64{
				"total_rss": &u.rss, "total_cache": &u.cache, "total_swap": &u.swap,
				"total_pgfault": &u.pageFaults, "total_pgmajfault": &u.majorPageFaults,
			}, "total_inactive_file", &inactive)
		}
		u.workingSet = less(u.memory, inactive)
	}
	if want&throttling != 0 {
		if text, ok := h.read("cpu", cgroup, "cpu.stat"); ok {
			keyed(text, map[string]**uint64{"nr_periods": &u.periods, "nr_throttled": &u.throttled, "throttled_time": &u.throttledFor}, "", nil)
		}
	}
	if want&devices == 0 {
		return
	}
	for _, file := range []struct {
		name        string
		read, write func(*deviceIO) *uint64
	}{
		{"blkio.throttle.io_service_bytes_recursive", func(d *deviceIO) *uint64 { return &d.readBytes }, func(d *deviceIO) *uint64 { return &d.writtenBytes }},
		{"blkio.throttle.io_serviced_recursive", func(d *deviceIO) *uint64 { return &d.reads }, func(d *deviceIO) *uint64 { return &d.writes }},
	} {
		if text, ok := h.read("blkio", cgroup, file.name); ok {
			u.addBlkio(text, file.read, file.write)
		}
	}
}

// limits are the limits of a cgroup. Nil means not known.
type limits struct {
	at            time.Time
	shares        *uint64
	quota, period *int64  // microseconds; quota -1 means none
	memory        *uint64 // bytes; 0 means none
}

// limits reads the limits of a cgroup.
func (h *hierarchy) limits(cgroup string, now time.Time) limits {
	l := limits{at: now}
	if !h.Unified() {
		l.shares = h.number("cpu", cgroup, "cpu.shares")
		if text, ok := h.read("cpu", cgroup, "cpu.cfs_quota_us"); ok {
			l.quota = signed(text)
		}
		if text, ok := h.read("cpu", cgroup, "cpu.cfs_period_us"); ok {
			l.period = signed(text)
		}
		l.memory = unlimited(h.number("memory", cgroup, "memory.limit_in_bytes"))
		return l
	}
	if weight := h.number("", cgroup, "cpu.weight"); weight != nil {
		l.shares = pointer(sharesOf(*weight))
	}
	if text, ok := h.read("", cgroup, "cpu.max"); ok {
		if fields := bytes.Fields(text); len(fields) == 2 {
			l.quota, l.period = signed(fields[0]), signed(fields[1])
		}
	}
	if text, ok := h.read("", cgroup, "memory.max"); ok {
		if l.memory = unlimited(unsigned(text)); string(bytes.TrimSpace(text)) == "max" {
			l.memory = pointer[uint64](0)
		}
	}
	return l
}

// addBlkio parses lines such as "8:0 Read 1234".
func (u *usage) addBlkio(text []byte, read, write func(*deviceIO) *uint64) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) != 3 {
			continue // the total
		}
		n, err := strconv.ParseUint(string(fields[2]), 10, 64)
		if err != nil {
			continue
		}
		switch string(fields[1]) {
		case "Read":
			*read(u.device(string(fields[0]))) = n
		case "Write":
			*write(u.device(string(fields[0]))) = n
		}
	}
}

// device returns the entry of a device, and creates it if necessary.
func (u *usage) device(number string) *deviceIO {
	i := slices.IndexFunc(u.io, func(d deviceIO) bool { return d.number == number })
	if i < 0 {
		i, u.io = len(u.io), append(u.io, deviceIO{number: number})
	}
	return &u.io[i]
}

func (h *hierarchy) readV2(u *usage, cgroup string, want facts) {
	if want&(cpuTime|throttling) != 0 {
		if text, ok := h.read("", cgroup, "cpu.stat"); ok {
			keyed(text, map[string]**uint64{
				"usage_usec": &u.cpu, "nr_periods": &u.periods, "nr_throttled": &u.throttled, "throttled_usec": &u.throttledFor,
			}, "", nil)
			for _, micro := range []*uint64{u.cpu, u.throttledFor} {
				if micro != nil {
					*micro *= 1000
				}
			}
		}
	}
	if want&memoryUse != 0 {
		u.memory = h.number("", cgroup, "memory.current")
	}
	if want&memoryKinds != 0 {
		var inactive uint64
		if text, ok := h.read("", cgroup, "memory.stat"); ok {
			keyed(text, map[string]**uint64{"anon": &u.rss, "file": &u.cache, "pgfault": &u.pageFaults, "pgmajfault": &u.majorPageFaults}, "inactive_file", &inactive)
		}
		u.workingSet = less(u.memory, inactive)
	}
	if want&(memoryKinds|swapUse) != 0 {
		u.swap = h.number("", cgroup, "memory.swap.current")
	}
	if want&pressures != 0 {
		for file, to := range map[string]**stats.PSIStats{"cpu.pressure": &u.cpuPSI, "memory.pressure": &u.memoryPSI, "io.pressure": &u.ioPSI} {
			if text, ok := h.read("", cgroup, file); ok {
				*to = pressure(text)
			}
		}
	}
	if want&devices != 0 {
		if text, ok := h.read("", cgroup, "io.stat"); ok {
			u.addIOStat(text)
		}
	}
}

// addIOStat parses lines such as "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0".
func (u *usage) addIOStat(text []byte) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		d := u.device(string(fields[0]))
		for _, f := range fields[1:] {
			name, value, _ := bytes.Cut(f, []byte("="))
			n := unsigned(value)
			if n == nil {
				continue
			}
			switch string(name) {
			case "rbytes":
				d.readBytes = *n
			case "wbytes":
				d.writtenBytes = *n
			case "rios":
				d.reads = *n
			case "wios":
				d.writes = *n
			}
		}
	}
}

// sharesOf returns the shares from which a weight of version 2 was derived, approximately.
func sharesOf(weight uint64) uint64 {
	weight = min(max(weight, 1), 10000)
	return 2 + ((weight-1)*262142)/9999
}

// unlimited converts the largest number of whole pages, which means no limit, to 0.
func unlimited(n *uint64) *uint64 {
	if n != nil && *n >= 1<<62 {
		return pointer[uint64](0)
	}
	return n
}

// less subtracts, but not below zero.
func less(n *uint64, by uint64) *uint64 {
	if n == nil {
		return nil
	}
	return pointer(*n - min(*n, by))
}

func pointer[T any](v T) *T { return &v }

// number reads a file that contains one number, nil if it does not exist.
func (h *hierarchy) number(controller, cgroup, file string) *uint64 {
	text, ok := h.read(controller, cgroup, file)
	if !ok {
		return nil
	}
	return unsigned(text)
}

func unsigned(text []byte) *uint64 {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// signed parses a number; max is -1.
func signed(text []byte) *int64 {
	text = bytes.TrimSpace(text)
	if string(text) == "max" {
		return pointer[int64](-1)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// keyed parses lines of a name and a number: into the wanted pointers, and the one named other into to.
func keyed(text []byte, want map[string]**uint64, other string, to *uint64) {
	for line := range bytes.Lines(text) {
		name, value, found := bytes.Cut(line, []byte(" "))
		if !found {
			continue
		}
		if other != "" && string(name) == other {
			if n := unsigned(value); n != nil {
				*to = *n
			}
		} else if at, ok := want[string(name)]; ok {
			*at = unsigned(value)
		}
	}
}

// pressure parses lines such as "some avg10=0.00 avg60=0.00 avg300=0.00 total=12"; total is in
// microseconds.
func pressure(text []byte) *stats.PSIStats {
	var out stats.PSIStats
	var any bool
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		data := &out.Some
		if string(fields[0]) == "full" {
			data = &out.Full
		}
		for _, f := range fields[1:] {
			name, value, _ := bytes.Cut(f, []byte("="))
			if string(name) == "total" {
				if n := unsigned(value); n != nil {
					data.Total, any = *n*1000, true
				}
				continue
			}
			average, err := strconv.ParseFloat(string(value), 64)
			if err != nil {
				continue
			}
			switch string(name) {
			case "avg10":
				data.Avg10 = average
			case "avg60":
				data.Avg60 = average
			case "avg300":
				data.Avg300 = average
			}
		}
	}
	if !any {
		return nil
	}
	return &out
}
