//go:build linux

package osproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"
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
		want := stat{pid: 7, parent: 10, group: 11, session: 12, state: 'S', startTime: 96463}
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
	if err := w.Watch(p, func() { close(ended) }); err != nil {
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
	for i := range 5 {
		_, p := start(t, "sleep", "1000")
		processes = append(processes, p)
		if err := w.Watch(p, func() { ends <- i }); err != nil {
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
	if err := w.Watch(processes[3], func() { ends <- 33 }); err == nil {
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
	if err := w.Watch(processes[2], func() {}); err == nil {
		t.Error("a closed watcher watches")
	}
	if len(ends) != 0 {
		t.Errorf("end of %d after Close", <-ends)
	}
}

// The group is reached after its leader's end, and the session beyond the group.
func TestKillTree(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; set -m; sleep 1000 & echo $!; exit 0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(id)
	if err != nil {
		t.Skip("the shell was faster than the test")
	}
	defer p.Close()
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

func TestFindByEnv(t *testing.T) {
	cmd := exec.Command("sh", "-c", "setsid sleep 1000 & sleep 1000")
	cmd.Env = append(os.Environ(), "OSPROC_MARK=here")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for {
			found, err := FindByEnv("OSPROC_MARK", map[string]bool{"here": true})
			if err != nil || len(found) == 0 {
				break
			}
			_ = KillSession(found["here"])
		}
		_ = cmd.Wait()
	}()
	found, err := FindByEnv("OSPROC_MARK", map[string]bool{"here": true, "elsewhere": true})
	if err != nil || len(found) != 1 || found["here"].PID != cmd.Process.Pid {
		t.Errorf("found %v, %v, want pid %d", found, err, cmd.Process.Pid)
	}
	if found, err := FindByEnv("OSPROC_MARK", map[string]bool{"her": true}); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

// KillByEnv reaches every session of a value and no process of another value.
func TestKillByEnv(t *testing.T) {
	mark := func(value string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "setsid sleep 1000 & sleep 1000")
		cmd.Env = append(os.Environ(), "OSPROC_KILL="+value)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	killed, kept := mark("killed"), mark("kept")
	if err := KillByEnv("OSPROC_KILL", map[string]bool{"killed": true, "absent": true}); err != nil {
		t.Error(err)
	}
	_ = killed.Wait() // returns: it was killed
	for {
		found, err := FindByEnv("OSPROC_KILL", map[string]bool{"killed": true, "kept": true})
		if _, ok := found["kept"]; err != nil || !ok {
			t.Errorf("left: %v, %v", found, err)
		}
		if _, dying := found["killed"]; !dying {
			break
		}
	}
	if err := KillByEnv("OSPROC_KILL", map[string]bool{"kept": true}); err != nil {
		t.Error(err)
	}
	_ = kept.Wait()
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
