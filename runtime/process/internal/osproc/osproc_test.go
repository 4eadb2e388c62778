//go:build linux

package osproc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a command in a session of its own. The test must end it.
func start(t *testing.T, name string, args ...string) (*exec.Cmd, *Process) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.KillTree()
		_ = cmd.Wait()
		p.Close()
	})
	return cmd, p
}

func TestParseStat(t *testing.T) {
	const rest = " S 10 11 12 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 96463 3133440"
	for name, command := range map[string]string{"plain": "(cat)", "spaces": "(a b)", "parentheses": "(x) R 1 (y))"} {
		got, err := parseStat([]byte("7 " + command + rest))
		want := stat{pid: 7, parent: 10, group: 11, session: 12, threads: 1, state: 'S', startTime: 96463}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, bad := range []string{"", "7", "7 (cat", "7 (cat) S 1", "x (cat)" + rest, "7 (cat) S x 11 12 0 -1 0 9 0 0 0 0 0 0 0 20 0 1 0 9 3"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// A process is dead once its last thread has ended, not with its main thread.
func TestDead(t *testing.T) {
	for s, want := range map[stat]bool{
		{state: 'S', threads: 1}: false, {state: 'S', threads: 2}: false, {state: 'Z', threads: 2}: false,
		{state: 'Z', threads: 1}: true, {state: 'Z', threads: 0}: true, {state: 'X', threads: 0}: true,
	} {
		if s.dead() != want {
			t.Errorf("%c with %d threads: dead %v", s.state, s.threads, s.dead())
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (cat) S 10 11 12 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 96463 3133440"))
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = parseStat(data) })
}

// Only the very process is opened: not one with another start time, of another
// boot, or that has ended, whether it was reaped or not.
func TestOpenFindsOnlyTheVeryProcess(t *testing.T) {
	cmd, p := start(t, "sleep", "1000")
	id := p.Identity()
	for name, change := range map[string]func(*Identity){
		"start time": func(i *Identity) { i.StartTime++ },
		"boot":       func(i *Identity) { i.BootID = "other" },
		"no pid":     func(i *Identity) { *i = Identity{BootID: i.BootID} },
	} {
		other := id
		change(&other)
		if q, err := Open(other); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: %v, %v", name, q, err)
		}
		if err := KillSession(other); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !p.Alive() {
			t.Fatalf("%s: the wrong process was killed", name)
		}
	}
	ended := watch(t, p)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	if q, err := Open(id); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("zombie: %v, %v", q, err)
	}
	if p.Alive() {
		t.Error("a zombie is alive")
	}
	_ = cmd.Wait()
	if err := p.Signal(0); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to a reaped process: %v", err)
	}
	p.Close()
	p.Close()
	if err := p.Signal(0); !errors.Is(err, os.ErrProcessDone) || p.Alive() {
		t.Errorf("signal through a closed handle: %v", err)
	}
}

// watch returns a channel that is closed when the process has ended.
func watch(t *testing.T, p *Process) <-chan struct{} {
	t.Helper()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	ended := make(chan struct{})
	if _, err := w.Watch(p, func() { close(ended) }); err != nil {
		t.Fatal(err)
	}
	return ended
}

// One watcher reports the end of many, of a zombie at once, and of none after Close.
func TestWatcherReportsEachEndOnce(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan int, 10)
	var processes []*Process
	var commands []*exec.Cmd
	for i := range 5 {
		cmd, p := start(t, "sleep", "1000")
		commands, processes = append(commands, cmd), append(processes, p)
		if _, err := w.Watch(p, func() { ends <- i }); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{3, 0, 4} {
		if err := processes[i].Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if got := <-ends; got != i {
			t.Errorf("end of %d, want %d", got, i)
		}
	}
	if _, err := w.Watch(processes[3], func() { ends <- 33 }); err == nil {
		if got := <-ends; got != 33 {
			t.Errorf("end of %d, want 33", got)
		}
	} else {
		t.Log("a process can be watched once only:", err)
	}
	w.Close()
	w.Close()
	if err := processes[1].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = commands[1].Wait() // it has ended
	if _, err := w.Watch(processes[2], func() {}); err == nil {
		t.Error("a closed watcher watches")
	}
	if len(ends) != 0 {
		t.Errorf("end of %d after Close", <-ends)
	}
}

// A watcher keeps nothing of a process that it was told to forget, and that has not ended.
func TestWatcherForgets(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, p := start(t, "sleep", "1000")
	forget, err := w.Watch(p, func() { t.Error("a forgotten process is reported") })
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		forget()
	}
	w.mu.Lock()
	if len(w.waits) != 0 {
		t.Errorf("%d waits", len(w.waits))
	}
	w.mu.Unlock()
	ended := watch(t, p)
	if err := p.KillTree(); err != nil {
		t.Error(err)
	}
	<-ended
}

// The group is reached after its leader's end, and the session beyond the group.
func TestKillTree(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; set -m; sleep 1000 & echo $!; read end; exit 0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, out := startPiped(t, cmd)
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = p.KillTree()
		p.Close()
	}()
	var pids [2]int
	if _, err := fmt.Fscan(out, &pids[0], &pids[1]); err != nil {
		t.Fatal(err)
	}
	var left []<-chan struct{}
	for _, pid := range pids {
		id, err := Identify(pid)
		if err != nil {
			t.Fatal(err)
		}
		child, err := Open(id)
		if err != nil {
			t.Fatal(err)
		}
		defer child.Close()
		left = append(left, watch(t, child))
	}
	in.Close()
	<-watch(t, p)
	if _, err := cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time no process is left
		if err := p.KillTree(); err != nil {
			t.Error(err)
		}
		for _, ended := range left {
			<-ended
		}
	}
}

// The method for older kernels spares a group of other processes.
func TestSignalGroupByNumber(t *testing.T) {
	cmd, p := start(t, "sh", "-c", "sleep 1000; true")
	stranger := &Process{id: p.Identity(), fd: -1}
	stranger.id.StartTime--
	if err := stranger.signalGroupByNumber(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) || !p.Alive() {
		t.Fatalf("a stranger's group was signalled: %v", err)
	}
	if err := p.signalGroupByNumber(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-watch(t, p)
	_ = cmd.Wait()
	if err := p.signalGroupByNumber(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

// startPiped starts a command with pipes to its standard input and from its standard output.
func startPiped(t *testing.T, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// mark is a variable that no other run of these tests uses.
func mark() string { return fmt.Sprintf("OSPROC_MARK_%d", os.Getpid()) }

// sleeping returns the living sleep processes with the mark. Their start is over.
func sleeping(t *testing.T, value string) []stat {
	t.Helper()
	processes, err := all()
	if err != nil {
		t.Fatal(err)
	}
	var out []stat
	for _, s := range processes {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", s.pid))
		env, _ := readEnv(s.pid)
		if v, ok := lookup(env, mark()); ok && v == value && string(comm) == "sleep\n" && !s.dead() {
			out = append(out, s)
		}
	}
	return out
}

// marked starts a shell with the mark, one child in its session and one in another, and waits
// for both.
func marked(t *testing.T, value string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "setsid sleep 1000 & sleep 1000 & wait")
	cmd.Env = append(os.Environ(), mark()+"="+value)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := KillByEnv(mark(), map[string]uint64{value: 0}); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	})
	patience.Until(t, "two children sleep", func() bool { return len(sleeping(t, value)) == 2 })
	return cmd
}

func TestFindByEnv(t *testing.T) {
	cmd := marked(t, "here")
	found, err := FindByEnv(mark(), "OSPROC_ABSENT", map[string]bool{"here": true, "elsewhere": true})
	if err != nil || len(found) != 1 || found["here"].PID != cmd.Process.Pid {
		t.Errorf("found %v, %v, want pid %d", found, err, cmd.Process.Pid)
	}
	if found, err := FindByEnv(mark(), "OSPROC_ABSENT", map[string]bool{"her": true}); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if found, err := FindByEnv(mark(), "PATH", map[string]bool{"here": true}); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v, in spite of the other variable", found, err)
	}
}

// KillByEnv reaches every session of a value and no process of another value.
func TestKillByEnv(t *testing.T) {
	killed := marked(t, "killed")
	marked(t, "kept")
	if err := KillByEnv(mark(), map[string]uint64{"killed": 0, "absent": 0}); err != nil {
		t.Error(err)
	}
	_ = killed.Wait() // returns: it was killed
	patience.Until(t, "both sessions end", func() bool { return len(sleeping(t, "killed")) == 0 })
	if left := sleeping(t, "kept"); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}

// KillByArgs reaches the session of a leader with the arguments, and no other.
func TestKillByArgs(t *testing.T) {
	script := func(value string) []string { return []string{"-c", "sleep 1000 & echo $!; read end", value} }
	session := func(value string) (p *Process, child Identity) {
		cmd := exec.Command("sh", script(value)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		in, out := startPiped(t, cmd)
		id, err := Identify(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			if err := KillSession(id); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait()
			p.Close()
		})
		var pid int
		if _, err := fmt.Fscan(out, &pid); err != nil {
			t.Fatal(err)
		}
		if child, err = Identify(pid); err != nil {
			t.Fatal(err)
		}
		if p, err = Open(id); err != nil {
			t.Fatal(err)
		}
		return p, child
	}
	killed, child := session("killed")
	spared, _ := session("spared")
	if err := KillByArgs(func(args []string) bool { return slices.Equal(args, append([]string{"sh"}, script("killed")...)) }); err != nil {
		t.Error(err)
	}
	<-watch(t, killed)
	patience.Until(t, "the child ends", func() bool {
		p, err := Open(child)
		if err == nil {
			p.Close()
		}
		return errors.Is(err, os.ErrProcessDone)
	})
	if !spared.Alive() {
		t.Error("a session with other arguments was killed")
	}
}

// Processes that started earlier are not looked at; those of the same tick are.
func TestKillByEnvSince(t *testing.T) {
	marked(t, "since")
	var last uint64
	for _, s := range sleeping(t, "since") {
		last = max(last, s.startTime)
	}
	if err := KillByEnv(mark(), map[string]uint64{"since": last + 1}); err != nil {
		t.Error(err)
	}
	if left := sleeping(t, "since"); len(left) != 2 {
		t.Fatalf("left: %v", left)
	}
	if err := KillByEnv(mark(), map[string]uint64{"since": last, "later": last + 1}); err != nil {
		t.Error(err)
	}
	patience.Until(t, "the last one ends", func() bool {
		return !slices.ContainsFunc(sleeping(t, "since"), func(s stat) bool { return s.startTime == last })
	})
}

// The caller, which may have been started in what it kills, is spared.
func TestKillByEnvSparesCaller(t *testing.T) {
	if variable := os.Getenv("OSPROC_CALLER"); variable != "" {
		if err := KillByEnv(variable, map[string]uint64{"caller": 0}); err != nil {
			t.Error(err)
		}
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKillByEnvSparesCaller$")
	cmd.Env = append(os.Environ(), mark()+"=caller", "OSPROC_CALLER="+mark())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// What cannot be looked at or killed is an error, and is killed by the next call.
func TestKillByEnvTellsFailures(t *testing.T) {
	_, p := start(t, "sleep", "1000")
	release := useDescriptors(t, 0)
	killed := stat{pid: p.Identity().PID, startTime: p.Identity().StartTime}.kill()
	_, read := readEnv(p.Identity().PID)
	release()
	if !errors.Is(killed, unix.EMFILE) || !errors.Is(read, unix.EMFILE) {
		t.Errorf("without a descriptor: kill: %v, environment: %v", killed, read)
	}
	for free := range 3 {
		value := fmt.Sprint("free", free)
		marked(t, value)
		release := useDescriptors(t, free)
		err := KillByEnv(mark(), map[string]uint64{value: 0})
		release()
		if free == 0 && !errors.Is(err, unix.EMFILE) {
			t.Errorf("without a descriptor: %v", err)
		}
		if err != nil {
			err = KillByEnv(mark(), map[string]uint64{value: 0})
		}
		if err != nil {
			t.Error(err)
		}
		patience.Until(t, value+": all end", func() bool { return len(sleeping(t, value)) == 0 })
	}
}

// useDescriptors leaves only some descriptors until the returned function is called.
func useDescriptors(t *testing.T, free int) (release func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	var held []int
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		held = append(held, fd)
	}
	for _, fd := range held[:free] {
		unix.Close(fd)
	}
	return func() {
		for _, fd := range held[free:] {
			unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}
}

// Looks are repeated while they find more, but not without end; the last one's error counts.
func TestRepeat(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		more, looks int
		err         error // of the last look
	}{{0, 1, nil}, {0, 1, failed}, {3, 4, nil}, {3, 4, failed}, {1000, killPasses, nil}} {
		looks := 0
		err := repeat(func() (bool, error) {
			looks++
			if looks < c.looks {
				return true, failed
			}
			return looks <= c.more, c.err
		})
		if looks != c.looks || !errors.Is(err, c.err) {
			t.Errorf("%+v: %d looks, %v", c, looks, err)
		}
	}
}

// A pid that belongs to another process by now is not killed.
func TestKillSparesReusedPid(t *testing.T) {
	cmd := exec.Command("cat")
	in, out := startPiped(t, cmd)
	s, err := readStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	s.startTime--
	if err := s.kill(); err != nil {
		t.Error(err)
	}
	// A process with a pending kill does nothing more.
	_, _ = fmt.Fprintln(in, "alive")
	var answer string
	if _, err := fmt.Fscan(out, &answer); err != nil {
		t.Errorf("it was killed: %v", err)
	}
	in.Close()
	_ = cmd.Wait()
}

func ExampleProcess_Alive() {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	id, _ := Identify(cmd.Process.Pid) // may be kept on disk
	p, err := Open(id)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	fmt.Println("alive:", p.Alive())
	_ = p.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	_, err = Open(id)
	fmt.Println("done:", errors.Is(err, os.ErrProcessDone))
	// Output:
	// alive: true
	// done: true
}
