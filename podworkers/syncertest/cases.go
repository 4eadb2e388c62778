package syncertest

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
)

func comesUp(e *env) { e.up(e.Pod("web")) }

// converges: a step for a pod that is as it should be changes nothing.
func converges(e *env) {
	pod := e.Pod("web")
	e.up(pod)
	for range 3 {
		if e.sync(pod, podworkers.Sync).Terminal {
			e.Fatal("SyncPod says that a running pod has ended")
		}
		if n := e.Running(pod.UID); n != len(pod.Spec.Containers) {
			e.Fatalf("%d containers run after another SyncPod, want %d", n, len(pod.Spec.Containers))
		}
	}
}

// cutOff returns a context that has ended as that of a call that was overtaken.
func (e *env) cutOff() context.Context {
	ctx, cancel := context.WithCancelCause(e.ctx)
	cancel(podworkers.CauseTerminating)
	return ctx
}

func syncMayBeCutOff(e *env) {
	pod := e.Pod("web")
	view, err := e.view(e.ctx, pod.UID)
	if err != nil {
		e.Fatal(err)
	}
	_, _ = e.Syncer.SyncPod(e.cutOff(), podworkers.Create, pod, nil, view) // it returns; how is open
	e.up(pod)
	e.stop(pod, nil, nil)
}

// terminalHasEnded: nothing runs, and the phase that says so is published.
func terminalHasEnded(e *env) {
	if e.Ending == nil {
		e.Skip("the subject has no pod that ends by itself")
	}
	pod := e.Ending("job")
	e.Cleanup(func() { e.cleanUp(pod) })
	for !e.sync(pod, podworkers.Sync).Terminal {
		e.pause("SyncPod says that the pod has ended", nil)
	}
	if n := e.Running(pod.UID); n > 0 {
		e.Errorf("SyncPod says that the pod has ended while %d containers run", n)
	}
	if e.Status == nil {
		return
	}
	if s := e.Status(pod.UID); s == nil || !podinfo.Terminal(s.Phase) {
		e.Errorf("the pod has ended and the status published is %+v", s)
	}
}

func stops(e *env) {
	pod := e.Pod("web")
	e.up(pod)
	grace := int64(2)
	e.stop(pod, &grace, nil)
	if grace != 2 {
		e.Errorf("the grace that was given is now %d", grace)
	}
}

// stopsWhatNeverRan: a pod may have to stop before its first SyncPod.
func stopsWhatNeverRan(e *env) {
	pod := e.Pod("web")
	e.stop(pod, nil, nil)
	e.release(pod)
}

func stopMayBeRepeated(e *env) {
	pod := e.Pod("web")
	e.up(pod)
	for range 2 {
		e.stop(pod, nil, nil)
	}
}

func statusIsEdited(e *env) {
	if e.Status == nil {
		e.Skip("the subject shows no statuses")
	}
	pod := e.Pod("web")
	e.up(pod)
	e.stop(pod, nil, func(s *v1.PodStatus) { s.Phase, s.Reason, s.Message = v1.PodFailed, "Evicted", "no room" })
	if s := e.Status(pod.UID); s == nil || s.Reason != "Evicted" || s.Message != "no room" {
		e.Errorf("the status published is %+v, want reason Evicted and message no room", s)
	}
}

func stopMayBeCutOff(e *env) {
	pod := e.Pod("web")
	e.up(pod)
	view, err := e.view(e.ctx, pod.UID)
	if err != nil {
		e.Fatal(err)
	}
	// It fails, or has finished its job all the same.
	if err := e.Syncer.SyncTerminatingPod(e.cutOff(), pod, view, nil, nil); err == nil && e.Running(pod.UID) > 0 {
		e.Error("SyncTerminatingPod was cut off, returned nil, and containers run")
	}
	e.stop(pod, nil, nil)
}

func releases(e *env) {
	if e.Held == nil {
		e.Skip("the subject does not show what is held")
	}
	pod := e.Pod("web")
	e.up(pod)
	e.stop(pod, nil, nil)
	e.release(pod)
	if e.Held(pod.UID) {
		e.Error("something is held for the pod after SyncTerminatedPod")
	}
}

func releaseMayBeRepeated(e *env) {
	pod := e.Pod("web")
	e.up(pod)
	e.stop(pod, nil, nil)
	for range 2 {
		e.release(pod)
	}
}

func stopsListed(e *env) {
	if e.Listed == nil {
		e.Skip("the subject lists no pods")
	}
	pod := e.Pod("web")
	e.up(pod)
	for {
		listed, err := e.Listed(e.ctx, pod.UID)
		if err == nil {
			err = e.Syncer.SyncTerminatingRuntimePod(e.ctx, listed)
		}
		if err == nil {
			break
		}
		e.pause("SyncTerminatingRuntimePod", err)
	}
	if n := e.Running(pod.UID); n > 0 {
		e.Errorf("SyncTerminatingRuntimePod returned nil while %d containers run", n)
	}
}

func othersRunOn(e *env) {
	web, db := e.Pod("web"), e.Pod("db")
	if web.UID == db.UID {
		e.Fatal("syncertest: Subject.Pod returns one UID for two names")
	}
	e.up(web)
	e.up(db)
	e.stop(web, nil, nil)
	e.release(web)
	if n := e.Running(db.UID); n != len(db.Spec.Containers) {
		e.Errorf("%d containers of the other pod run, want %d", n, len(db.Spec.Containers))
	}
}

// sideBySide: the workers call for different pods at once.
func sideBySide(e *env) {
	pods := make([]*v1.Pod, 8)
	for i := range pods {
		pods[i] = e.Pod(fmt.Sprint("pod-", i))
	}
	e.together(pods, e.up)
	e.together(pods, func(pod *v1.Pod) {
		e.stop(pod, nil, nil)
		e.release(pod)
	})
}

func (e *env) together(pods []*v1.Pod, call func(*v1.Pod)) {
	e.Helper()
	var all sync.WaitGroup
	for _, pod := range pods {
		all.Go(func() { call(pod) })
	}
	all.Wait()
	if e.Failed() {
		e.FailNow()
	}
}

func podsStay(e *env) {
	pod := e.Pod("web")
	before := pod.DeepCopy()
	e.up(pod)
	e.unchanged("SyncPod", before, pod)
	e.stop(pod, nil, func(s *v1.PodStatus) { s.Reason = "Evicted" })
	e.unchanged("SyncTerminatingPod", before, pod)
	e.release(pod)
	e.unchanged("SyncTerminatedPod", before, pod)
}

// lives: created, up, killed, finished and forgotten, in the hands of real workers.
func lives(e *env) {
	w := podworkers.New(e.Syncer, podworkers.Options{Views: e.Views, Clock: e.Clock})
	ctx, cancel := context.WithCancel(e.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	e.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			e.Errorf("the workers: %v", err)
		}
	})
	pod := e.Pod("web")
	e.Cleanup(func() { e.cleanUp(pod) })
	w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod})
	for e.Running(pod.UID) != len(pod.Spec.Containers) {
		e.pause("the pod up", nil)
		if e.Views != nil {
			e.Views.Refresh(pod.UID)
		}
		w.Wake(pod.UID)
	}
	if err := w.KillPod(ctx, pod, podworkers.KillOptions{}); err != nil {
		e.Fatalf("KillPod: %v", err)
	}
	for !w.ShouldPodBeFinished(pod.UID) {
		explained, _ := w.Explain(pod.UID)
		e.pause("the pod finished", fmt.Errorf("state %s, %s", explained.State, explained.LastError))
	}
	if known := w.SyncKnownPods(nil); len(known) > 0 {
		e.Errorf("a pod that is finished and not desired stays known: %v", known)
	}
	if n := e.Running(pod.UID); n > 0 {
		e.Errorf("%d containers of a finished pod run", n)
	}
}
