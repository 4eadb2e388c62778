package containerdtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// cleanup ends the instance. It runs after the test's context has ended.
func (i *Instance) cleanup() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(i.tb.Context()), cleanupTimeout)
	defer cancel()
	if i.process != nil {
		if i.tb.Failed() {
			i.tb.Logf("containerdtest: end of the log of containerd:\n%s", i.process.logTail())
		}
		if i.process.running() {
			// The polite way runs the CNI teardown; the rough way below removes whatever is left,
			// so errors here do not matter.
			_ = removeSandboxes(ctx, i.Endpoint)
		}
		if err := i.process.stop(); err != nil {
			i.tb.Errorf("containerdtest: %v", err)
		}
	}
	err := removeLeftovers(ctx, i.layout, i.slot, i.tools)
	if err := errors.Join(err, i.slot.release(err == nil)); err != nil {
		i.tb.Errorf("containerdtest: clean up: %v", err)
	}
}

// removeSandboxes stops and removes every sandbox the runtime has.
func removeSandboxes(ctx context.Context, endpoint string) error {
	conn, err := dial(endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	list, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(list.GetItems()))
	for n, sandbox := range list.GetItems() {
		wg.Go(func() {
			_, stopErr := client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox.GetId()})
			_, removeErr := client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox.GetId()})
			errs[n] = errors.Join(stopErr, removeErr)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// removeLeftovers removes everything that an instance may have left on the machine, in whatever
// state: processes, mounts, sockets, cgroups, the network, the folder. It relies only on the
// instance's own paths and names.
func removeLeftovers(ctx context.Context, l layout, s *slot, t *tools) error {
	if !filepath.IsAbs(l.root) || !strings.HasPrefix(filepath.Base(l.root), "podwright-") {
		return fmt.Errorf("%q is not the folder of an instance", l.root)
	}
	containers, sockets := readBundles(l)
	errs := []error{
		killProcesses(ctx, l),
		unmountFrom(l.root),
	}
	for _, socket := range sockets {
		errs = append(errs, ignoreAbsent(os.Remove(socket)))
	}
	removeCgroups(containers)
	errs = append(errs, removeNetwork(ctx, s, t, containers), os.RemoveAll(l.root))
	return errors.Join(errs...)
}

// readBundles returns the IDs of the containers that a shim holds and the
// sockets of these shims, which lie outside the instance's folder.
func readBundles(l layout) (ids, sockets []string) {
	entries, err := os.ReadDir(l.bundles())
	if err != nil {
		return nil, nil
	}
	for _, e := range entries {
		ids = append(ids, e.Name())
		bundle := filepath.Join(l.bundles(), e.Name())
		if socket, ok := strings.CutPrefix(shimAddress(bundle), "unix://"); ok && filepath.IsAbs(socket) {
			sockets = append(sockets, socket)
		}
	}
	return ids, sockets
}

// shimAddress returns the address of a bundle's shim, "" if there is none. containerd 1.x writes it
// in plain text, 2.x as part of a document.
func shimAddress(bundle string) string {
	if address, err := os.ReadFile(filepath.Join(bundle, "address")); err == nil {
		return string(address)
	}
	var bootstrap struct {
		Address string `json:"address"`
	}
	content, err := os.ReadFile(filepath.Join(bundle, "bootstrap.json"))
	if err != nil || json.Unmarshal(content, &bootstrap) != nil {
		return ""
	}
	return bootstrap.Address
}

// killProcesses kills the daemon and the shims whose command lines name files of this instance, and
// the direct children of these shims (the containers' first processes, which take their process
// namespaces down with them).
func killProcesses(ctx context.Context, l layout) error {
	processes, err := listProcesses()
	if err != nil {
		return err
	}
	var victims []int
	shims := map[int]bool{}
	for _, p := range processes {
		switch {
		case slices.Contains(p.args, l.config()):
			victims = append(victims, p.pid)
		case slices.Contains(p.args, l.socket()):
			victims = append(victims, p.pid)
			shims[p.pid] = true
		}
	}
	for _, p := range processes {
		if shims[p.parent] {
			victims = append(victims, p.pid)
		}
	}
	for _, pid := range victims {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return poll(ctx, func() (bool, error) {
		for _, pid := range victims {
			if p, ok := readProcess(pid); ok && !p.zombie {
				return false, fmt.Errorf("process %d does not end", pid)
			}
		}
		return true, nil
	})
}

// processInfo is what /proc says about a process.
type processInfo struct {
	pid, parent int
	zombie      bool
	args        []string
}

func listProcesses() ([]processInfo, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []processInfo
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// readProcess reports false for a process that is gone.
func readProcess(pid int) (processInfo, bool) {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return processInfo{}, false
	}
	cmdline, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	if err != nil {
		return processInfo{}, false
	}
	// pid (name) state ppid …; the name may contain anything.
	_, rest, _ := cutLast(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return processInfo{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return processInfo{}, false
	}
	return processInfo{
		pid: pid, parent: parent,
		zombie: fields[0] == "Z" || fields[0] == "X",
		args:   strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"),
	}, true
}

func cutLast(s, sep string) (before, after string, found bool) {
	if n := strings.LastIndex(s, sep); n >= 0 {
		return s[:n], s[n+len(sep):], true
	}
	return s, "", false
}

// unmountFrom detaches every mount on and below folder, the last one first.
func unmountFrom(folder string) error { return unmount(folder, true) }

// unmount detaches every mount below folder, the last one first, and with itself also those on it.
func unmount(folder string, itself bool) error {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	points := mountPoints(string(content), folder)
	slices.Reverse(points)
	var errs []error
	for _, point := range points {
		if point == folder && !itself {
			continue
		}
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// mountPoints returns the mount points on and below folder in the order of
// mountinfo.
func mountPoints(mountinfo, folder string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape.Replace(fields[4]); point == folder || strings.HasPrefix(point, folder+"/") {
			out = append(out, point)
		}
	}
	return out
}

// removeCgroups removes the cgroups of containers that were killed without runc, on both cgroup
// versions. Empty groups cost nothing, so failures do not matter.
func removeCgroups(containers []string) {
	for _, id := range containers {
		for _, pattern := range []string{"/sys/fs/cgroup/k8s.io/", "/sys/fs/cgroup/*/k8s.io/"} {
			folders, err := filepath.Glob(pattern + id)
			if err != nil {
				continue
			}
			for _, folder := range folders {
				_ = unix.Rmdir(folder)
			}
		}
	}
}

// removeNetwork removes the bridge, and the CNI library's records of it and of the sandboxes'
// loopback interfaces.
func removeNetwork(ctx context.Context, s *slot, t *tools, containers []string) error {
	const folder = "/var/lib/cni/results/"
	notes, err := filepath.Glob(folder + s.network() + "-*")
	if err != nil {
		return err
	}
	for _, id := range containers {
		notes = append(notes, folder+"cni-loopback-"+id+"-lo")
	}
	var errs []error
	for _, note := range notes {
		errs = append(errs, ignoreAbsent(os.Remove(note)))
	}
	if _, err := net.InterfaceByName(s.bridge()); err == nil {
		_, err := run(ctx, t.ip, "link", "delete", s.bridge())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
