package credentials

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outputGrace is how long to wait for the output of a plugin that has ended: a process that it left
// in another session may keep the output open.
const outputGrace = time.Second

// execute runs a program until it ends; it is killed when ctx ends. Either way, whatever remains of
// its process group is killed too. If this process dies, the kernel kills the program.
func execute(ctx context.Context, c command) (o output, err error) {
	stdout, stderr := &bounded{most: maxAnswer, strict: true}, &bounded{most: maxStderr}
	program := exec.Command(c.file, c.args...)
	program.Env, program.Stdin, program.Stdout, program.Stderr = c.env, bytes.NewReader(c.stdin), stdout, stderr
	program.WaitDelay = outputGrace
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// To the kernel, the parent dies when the thread that started the program ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := ctx.Err(); err != nil {
		return output{}, err
	}
	if err := program.Start(); err != nil {
		return output{}, err
	}
	group := -program.Process.Pid
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = syscall.Kill(group, syscall.SIGKILL) // fails if the group has just ended
	})
	await(program.Process.Pid)
	if !stop() {
		<-killed
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // fails if nothing is left, as usual
	err = program.Wait()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case stdout.cut:
		err = errTooLong
	case errors.Is(err, exec.ErrWaitDelay):
		err = nil // it succeeded, and its output is complete
	}
	return output{stdout: stdout.text, stderr: stderr.text, cut: stderr.cut}, err
}

// await waits until a child has ended, without reaping it, so that its process group keeps its
// number.
func await(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
