package process

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/process/internal/launch"
)

// newRecord turns a container config into a record. Its error names all problems.
func (r *Runtime) newRecord(s *sandbox, config *runtimeapi.ContainerConfig) (*containerRecord, error) {
	m := config.GetMetadata()
	if m == nil || m.GetName() == "" {
		return nil, fmt.Errorf("container config has no name: %w", runtime.ErrInvalid)
	}
	image, err := resolveImage(config.GetImage().GetImage())
	if err != nil {
		return nil, err
	}
	id, err := r.newID()
	if err != nil {
		return nil, err
	}
	record := &containerRecord{
		ID: id, SandboxID: s.record.ID, Name: m.GetName(), Attempt: m.GetAttempt(), CreatedAt: r.clock.Now(),
		Image: config.GetImage().GetImage(), UserSpecifiedImage: config.GetImage().GetUserSpecifiedImage(),
		ImageRef: image.ref, Root: image.root,
		Labels: maps.Clone(config.GetLabels()), Annotations: maps.Clone(config.GetAnnotations()),
		Args: slices.Concat(config.GetCommand(), config.GetArgs()), Dir: config.GetWorkingDir(),
		NoNewPrivs: config.GetLinux().GetSecurityContext().GetNoNewPrivs(),
		LogDir:     s.record.LogDir, LogName: config.GetLogPath(),
	}
	var errs []error
	record.Env, err = environment(config.GetEnvs())
	errs = append(errs, err, checkCommand(record), checkLogPath(record.LogName))
	record.User, err = resolveUser(record.Root, config.GetLinux().GetSecurityContext())
	errs = append(errs, err)
	record.Mounts, err = resolveMounts(config.GetMounts())
	errs = append(errs, err)
	record.StopSignal, err = stopSignal(config.GetStopSignal())
	errs = append(errs, err)
	if os.Geteuid() != 0 && record.privateMounts() {
		errs = append(errs, errors.New("mounts need an agent that runs as root, except, with image \"host\", "+
			"writable ones with the same path on both sides: use the host's path in the container"))
	}
	if config.GetTty() {
		errs = append(errs, errors.New("tty is not supported"))
	}
	if len(config.GetDevices()) > 0 || len(config.GetCDIDevices()) > 0 {
		errs = append(errs, errors.New("devices are not supported: the host's are in /dev"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("container %q: %w: %w", m.GetName(), runtime.ErrInvalid, err)
	}
	return record, nil
}

func environment(envs []*runtimeapi.KeyValue) ([]string, error) {
	out := make([]string, 0, len(envs))
	for _, e := range envs {
		if e.GetKey() == "" || strings.ContainsAny(e.GetKey(), "=\x00") || bytes.IndexByte(e.GetValue(), 0) >= 0 {
			// The value may be a secret.
			return nil, fmt.Errorf("environment variable %q: a name must not be empty or hold \"=\", and there is no NUL in either", e.GetKey())
		}
		out = append(out, e.GetKey()+"="+string(e.GetValue()))
	}
	return out, nil
}

func checkCommand(record *containerRecord) error {
	if len(record.Args) == 0 || record.Args[0] == "" {
		return errors.New("no command: an image of this runtime has no default one")
	}
	for _, a := range record.Args {
		if strings.ContainsRune(a, 0) {
			return errors.New("an argument holds a NUL")
		}
	}
	if record.Dir != "" && (!filepath.IsAbs(record.Dir) || strings.ContainsRune(record.Dir, 0)) {
		return fmt.Errorf("working directory %q is not an absolute path", record.Dir)
	}
	return nil
}

// checkLogPath keeps the log file below the sandbox's log directory; symbolic
// links that lead out of it are refused when the file is opened.
func checkLogPath(name string) error {
	if name != "" && (!filepath.IsLocal(name) || hasDotDot(name) || name == "." || strings.ContainsRune(name, 0)) {
		return fmt.Errorf("log path %q must be relative and stay below the sandbox's log directory", name)
	}
	return nil
}

func resolveMounts(mounts []*runtimeapi.Mount) ([]launch.Mount, error) {
	var out []launch.Mount
	var errs []error
	for _, m := range mounts {
		at, from := m.GetContainerPath(), m.GetHostPath()
		switch {
		case m.GetImage().GetImage() != "":
			errs = append(errs, fmt.Errorf("mount at %q: image mounts are not supported", at))
		case !filepath.IsAbs(at) || hasDotDot(at) || filepath.Clean(at) == "/" || strings.ContainsRune(at, 0):
			errs = append(errs, fmt.Errorf("mount at %q: want an absolute path other than / and without \"..\"", at))
		case !filepath.IsAbs(from) || hasDotDot(from) || strings.ContainsRune(from, 0):
			errs = append(errs, fmt.Errorf("mount at %q: host path %q is not an absolute path without \"..\"", at, from))
		case m.GetPropagation() == runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL:
			errs = append(errs, fmt.Errorf("mount at %q: bidirectional propagation is not supported", at))
		default:
			out = append(out, launch.Mount{
				ContainerPath: filepath.Clean(at), HostPath: filepath.Clean(from), Readonly: m.GetReadonly(),
				FromHost: m.GetPropagation() == runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
			})
		}
	}
	return out, errors.Join(errs...)
}

// resolveUser returns the user to run as, nil for the agent's own.
func resolveUser(root string, sc *runtimeapi.LinuxContainerSecurityContext) (*launch.User, error) {
	uid, gid, name := sc.GetRunAsUser(), sc.GetRunAsGroup(), sc.GetRunAsUsername()
	switch {
	case uid != nil && name != "":
		return nil, errors.New("both a user ID and a user name to run as")
	case gid != nil && uid == nil && name == "":
		return nil, errors.New("a group to run as without a user")
	case uid != nil && (uid.GetValue() < 0 || uid.GetValue() > math.MaxUint32-1),
		gid != nil && (gid.GetValue() < 0 || gid.GetValue() > math.MaxUint32-1):
		return nil, fmt.Errorf("user %d or group %d to run as is out of range", uid.GetValue(), gid.GetValue())
	}
	if os.Geteuid() != 0 {
		return nil, checkOwnUser(sc)
	}
	strict := sc.GetSupplementalGroupsPolicy() == runtimeapi.SupplementalGroupsPolicy_Strict
	if uid == nil && name == "" && len(sc.GetSupplementalGroups()) == 0 && !strict { // strict: without the agent's groups
		return nil, nil
	}
	files, err := launch.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	var user *launch.User
	if name != "" {
		user, err = files.UserByName(name)
	} else {
		user, err = files.UserByID(uint32(uid.GetValue()))
	}
	if err != nil {
		return nil, err
	}
	if gid != nil {
		user.GID = uint32(gid.GetValue())
	}
	if strict {
		user.Groups = nil
	}
	for _, g := range sc.GetSupplementalGroups() {
		if g < 0 || g > math.MaxUint32-1 {
			return nil, fmt.Errorf("supplemental group %d is out of range", g)
		}
		user.Groups = append(user.Groups, uint32(g))
	}
	return user, nil
}

// checkOwnUser allows, for an agent that cannot change users, only its own.
func checkOwnUser(sc *runtimeapi.LinuxContainerSecurityContext) error {
	uid, gid := sc.GetRunAsUser(), sc.GetRunAsGroup()
	if sc.GetRunAsUsername() != "" ||
		uid != nil && uid.GetValue() != int64(os.Geteuid()) ||
		gid != nil && gid.GetValue() != int64(os.Getegid()) ||
		len(sc.GetSupplementalGroups()) > 0 {
		return fmt.Errorf("another user, group or supplemental groups need an agent that runs as root, not as user %d", os.Geteuid())
	}
	return nil
}

// stopSignal returns the number of the signal that asks a container to stop.
func stopSignal(s runtimeapi.Signal) (int, error) {
	name := strings.TrimPrefix(s.String(), "SIGNAL_") // SIGTERM, SIGRTMINPLUS3
	if s == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		name = "SIGTERM"
	}
	if n := unix.SignalNum(name); n != 0 {
		return int(n), nil
	}
	// Real-time signals are counted from either end, as the C library does.
	for prefix, base := range map[string]int{"SIGRTMINPLUS": 34, "SIGRTMAXMINUS": -64} {
		if offset, err := strconv.Atoi(strings.TrimPrefix(name, prefix)); err == nil {
			return max(base+offset, -(base + offset)), nil
		}
	}
	switch name {
	case "SIGRTMIN":
		return 34, nil
	case "SIGRTMAX":
		return 64, nil
	case "SIGCLD", "SIGPOLL", "SIGIOT": // other names
		return int(map[string]unix.Signal{"SIGCLD": unix.SIGCHLD, "SIGPOLL": unix.SIGIO, "SIGIOT": unix.SIGABRT}[name]), nil
	}
	return 0, fmt.Errorf("stop signal %s is unknown", s)
}

// signalOf is the inverse of stopSignal; it returns the default for SIGTERM, and for a
// number that is not a signal's.
func signalOf(number int) runtimeapi.Signal {
	if number == int(unix.SIGTERM) {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	for s := runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT + 1; runtimeapi.Signal_name[int32(s)] != ""; s++ {
		if n, err := stopSignal(s); err == nil && n == number {
			return s
		}
	}
	return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT
}

// leastCPUShares are the CPU shares of a container without a CPU request.
const leastCPUShares = 2

// notApplied names the requests of a config that this runtime accepts and ignores
// because they only limit the container. It leaves out those that every container has,
// whatever its manifest says (masked paths, the least CPU shares, an OOM score).
func notApplied(config *runtimeapi.ContainerConfig) []string {
	sc := config.GetLinux().GetSecurityContext()
	resources := config.GetLinux().GetResources()
	var out []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"resources", resources.GetCpuShares() > leastCPUShares || resources.GetCpuQuota() > 0 || resources.GetMemoryLimitInBytes() > 0 ||
			resources.GetCpusetCpus() != "" || resources.GetCpusetMems() != ""},
		{"capabilities", len(sc.GetCapabilities().GetAddCapabilities())+len(sc.GetCapabilities().GetDropCapabilities()) > 0},
		{"readonlyRootfs", sc.GetReadonlyRootfs()},
		{"seccomp", sc.GetSeccomp().GetProfileType() != runtimeapi.SecurityProfile_Unconfined && sc.GetSeccomp() != nil},
		{"apparmor", sc.GetApparmor().GetProfileType() != runtimeapi.SecurityProfile_Unconfined && sc.GetApparmor() != nil},
		{"selinux", sc.GetSelinuxOptions() != nil},
	} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}
