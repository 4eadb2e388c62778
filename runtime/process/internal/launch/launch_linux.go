package launch

import (
	"errors"
	"fmt"
	"os"
	"path"
	goruntime "runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/durable"
)

// defaultPath is searched if the environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Spec says what to start.
type Spec struct {
	// Args is the command and its arguments. A command without a slash is looked
	// up in the PATH of Env, within Root.
	Args []string
	// Env is the whole environment; PATH is added if missing.
	Env []string
	// Dir is the working directory within Root; empty means "/".
	Dir string
	// Root is the folder that becomes the root directory; empty means the host's.
	Root string
	// User to run as; nil means the caller's.
	User *User
	// NoNewPrivs forbids the process to gain privileges.
	NoNewPrivs bool
	// PrivateMounts gives the process a mount namespace of its own, with Mounts in it.
	PrivateMounts bool
	// Mounts are bound in order; they need PrivateMounts.
	Mounts []Mount
	// MountsOf, a pidfd, makes the process join that process's mount namespace; 0
	// means none. It excludes PrivateMounts.
	MountsOf int
	// Stdin, Stdout and Stderr must be set.
	Stdin, Stdout, Stderr *os.File
	// Terminal makes Stdin, a terminal, the one that controls the process and its session.
	Terminal bool
}

// User is a resolved user.
type User struct {
	// UID, GID and Groups are numeric, as the kernel wants them.
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
}

// Start starts the process and returns its pid and pidfd, which the caller owns.
// The process is a child of the caller and must be reaped by it.
func Start(spec Spec) (pid, pidfd int, err error) {
	if !spec.PrivateMounts && spec.MountsOf == 0 && !spec.NoNewPrivs {
		return spec.fork()
	}
	onSpoiledThread(func() {
		if err = spec.prepareThread(); err == nil {
			pid, pidfd, err = spec.fork()
		}
	})
	return pid, pidfd, err
}

// onSpoiledThread runs f on a thread that ends with f, so f may change the
// thread for good. It is never the first thread, which does not end and whose
// view of the file system is what /proc/self shows.
func onSpoiledThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// With this thread held, the next goroutine gets another one.
			onSpoiledThread(f)
			goruntime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// prepareThread changes what children inherit from the calling thread.
func (s *Spec) prepareThread() error {
	if s.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
	}
	switch {
	case s.PrivateMounts:
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("private mount namespace: %w", err)
		}
		return s.mount()
	case s.MountsOf != 0:
		// A thread that shares its root and working directory with others may
		// not change its mount namespace.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("join the container's mounts: %w", err)
		}
		if err := unix.Setns(s.MountsOf, unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("join the container's mounts: %w", err)
		}
	}
	return nil
}

func (s *Spec) fork() (pid, pidfd int, err error) {
	root, err := OpenRoot(s.Root)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	switch mode, err := root.mode(dir); {
	case err != nil:
		return 0, 0, fmt.Errorf("working directory: %w", err)
	case mode&unix.S_IFMT != unix.S_IFDIR:
		return 0, 0, fmt.Errorf("working directory %s is not a directory", dir)
	}
	env := s.Env
	search, ok := lookup(env, "PATH")
	if !ok {
		search = defaultPath
		env = append(env[:len(env):len(env)], "PATH="+search)
	}
	command, err := root.find(s.Args[0], search, dir)
	if err != nil {
		return 0, 0, err
	}
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: s.Terminal, PidFD: &pidfd, Chroot: s.Root}
	if s.User != nil {
		sys.Credential = &syscall.Credential{Uid: s.User.UID, Gid: s.User.GID, Groups: s.User.Groups}
	}
	pid, err = syscall.ForkExec(command, s.Args, &syscall.ProcAttr{
		Dir:   dir,
		Env:   env,
		Files: []uintptr{s.Stdin.Fd(), s.Stdout.Fd(), s.Stderr.Fd()},
		Sys:   sys,
	})
	goruntime.KeepAlive(s)
	if err != nil {
		return 0, 0, fmt.Errorf("start %q: %w", s.Args[0], explain(err))
	}
	return pid, pidfd, nil
}

// explain adds the usual cause of an errno of exec.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("%w: arguments and environment together are too large", err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: its interpreter or loader is missing", err)
	}
	return err
}

// lookup returns the value of the last entry for name.
func lookup(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if n, v, found := strings.Cut(entry, "="); found && n == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// Root resolves paths within a root folder: ".." and symbolic links, absolute
// ones too, mean what they mean to a process whose root directory it is.
type Root struct {
	dir string
	fd  int
}

// OpenRoot opens a root folder; the empty string is the host's.
func OpenRoot(dir string) (*Root, error) {
	if dir == "" {
		dir = "/"
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("root folder %s: %w", dir, err)
	}
	return &Root{dir: dir, fd: fd}, nil
}

// Close releases the folder.
func (r *Root) Close() { unix.Close(r.fd) }

// open opens a path within the root. The caller closes the descriptor.
func (r *Root) open(name string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	if r.dir == "/" {
		how.Resolve = 0 // nothing to leave, and /proc's links mean something
	}
	for {
		fd, err := unix.Openat2(r.fd, name, &how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue // a rename raced with the resolution
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}

// ReadFile reads a file within the root.
func (r *Root) ReadFile(name string) ([]byte, error) {
	fd, err := r.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	data, err := durable.ReadOpen(f, maxUserFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// mode returns the mode of what name resolves to.
func (r *Root) mode(name string) (uint32, error) {
	fd, err := r.open(name, unix.O_PATH)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return st.Mode, nil
}

// find returns the path of a command, as the shell would find it.
func (r *Root) find(command, search, dir string) (string, error) {
	executable := func(name string) bool {
		mode, err := r.mode(name)
		return err == nil && mode&unix.S_IFMT == unix.S_IFREG && mode&0o111 != 0
	}
	if strings.Contains(command, "/") {
		full := command
		if !path.IsAbs(full) {
			full = path.Join(dir, command)
		}
		if !executable(full) {
			return "", fmt.Errorf("command %q is not an executable file", command)
		}
		return full, nil
	}
	for folder := range strings.SplitSeq(search, ":") {
		if !path.IsAbs(folder) {
			continue // the meaning of an empty or relative entry depends on the caller
		}
		if full := path.Join(folder, command); executable(full) {
			return full, nil
		}
	}
	return "", fmt.Errorf("command %q not found in PATH %q", command, search)
}
