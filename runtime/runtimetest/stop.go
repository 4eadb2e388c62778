package runtimetest

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// codeKilled is the exit code of a process that SIGKILL ended.
const codeKilled = 137

func stopCases() []namedCase {
	return []namedCase{
		{"SIGTERM comes first", stopGraceful},
		{"SIGKILL comes after the grace period", stopForced},
		{"no grace is SIGKILL", stopAtOnce},
		{"it is idempotent", stopIdempotent},
		{"a created container can be stopped", stopCreated},
		{"a shorter stop overtakes a longer one", stopShorter},
		{"a cancelled stop returns and can be repeated", stopCancelled},
	}
}

// stopGraceful: with a long grace only a handled SIGTERM ends the program in
// time, with the code it chose.
func stopGraceful(e *env) {
	s := e.sandbox()
	id := e.startReady(s, Program{Run: Forever, OnTERM: 23})
	e.must(e.Runtime.StopContainer(e.ctx, id, longGrace))
	if st := e.status(id); st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetExitCode() != 23 {
		e.Errorf("after the stop: %v with code %d, want EXITED with 23", st.GetState(), st.GetExitCode())
	}
}

func stopForced(e *env) {
	s := e.sandbox()
	id := e.startReady(s, Program{Run: Forever, IgnoreTERM: true})
	e.must(e.Runtime.StopContainer(e.ctx, id, 1))
	if st := e.status(id); st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetExitCode() != codeKilled {
		e.Errorf("after the stop: %v with code %d, want EXITED with %d", st.GetState(), st.GetExitCode(), codeKilled)
	}
}

func stopAtOnce(e *env) {
	s := e.sandbox()
	id := e.startReady(s, Program{Run: Forever, IgnoreTERM: true})
	e.must(e.Runtime.StopContainer(e.ctx, id, 0))
	if st := e.waitExited(id); st.GetExitCode() != codeKilled {
		e.Errorf("exit code %d, want %d", st.GetExitCode(), codeKilled)
	}
}

func stopIdempotent(e *env) {
	s := e.sandbox()
	id := e.startReady(s, Program{Run: Forever, OnTERM: 4})
	for range 2 {
		e.must(e.Runtime.StopContainer(e.ctx, id, longGrace))
	}
	finished := e.finish(s, Program{Exit: 6}).GetId()
	e.must(e.Runtime.StopContainer(e.ctx, finished, longGrace))
	for id, code := range map[string]int32{id: 4, finished: 6} {
		if got := e.status(id).GetExitCode(); got != code {
			e.Errorf("a repeated stop changed the exit code to %d, want %d", got, code)
		}
	}
}

func stopCreated(e *env) {
	s := e.sandbox()
	id := e.create(s, Program{Run: Forever})
	e.must(e.Runtime.StopContainer(e.ctx, id, 1))
	e.must(e.Runtime.RemoveContainer(e.ctx, id))
}

// stopShorter: a kill may be repeated with a shorter grace without waiting for
// the first; both end with the container (spec/runtime.md 16.6).
func stopShorter(e *env) {
	s := e.sandbox()
	id := e.startReady(s, Program{Run: Forever, IgnoreTERM: true})
	first := make(chan error, 1)
	go func() { first <- e.Runtime.StopContainer(e.ctx, id, 3600) }()
	e.must(e.Runtime.StopContainer(e.ctx, id, 1))
	if got := e.waitExited(id).GetExitCode(); got != codeKilled {
		e.Errorf("exit code %d, want %d", got, codeKilled)
	}
	e.must(<-first)
}

// stopCancelled: whether the container dies of a cancelled stop is open, the
// call's answer is not; and the next stop works.
func stopCancelled(e *env) {
	s := e.sandbox()
	id := e.startReady(s, Program{Run: Forever, IgnoreTERM: true})
	ctx, cancel := context.WithCancel(e.ctx)
	first := make(chan error, 1)
	go func() { first <- e.Runtime.StopContainer(ctx, id, 3600) }()
	// Running a command in the container takes time, in which the stop arrives.
	_, _, err := e.exec(id, Program{}, 0)
	e.must(err)
	cancel()
	if err := <-first; cri.Class(err) != runtime.ErrCanceled {
		e.Errorf("cancelled stop: %v, want class %v", err, runtime.ErrCanceled)
	}
	e.must(e.Runtime.StopContainer(e.ctx, id, 0))
	e.waitExited(id)
}
