package podworkers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// newPod returns an API pod with a grace period of 30 s.
func newPod(uid types.UID) *v1.Pod {
	grace := int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Name: "name-" + string(uid), Namespace: "default"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []v1.Container{{Name: "c"}}},
	}
}

// newStatic returns a pod from a file.
func newStatic(uid types.UID, name string) *v1.Pod {
	pod := newPod(uid)
	pod.Name = name
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	return pod
}

// run runs the workers until the test ends or the caller calls the returned function, which waits
// for the end.
func run(t *testing.T, w *podworkers.Workers) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func create(pod *v1.Pod) podworkers.UpdateOptions {
	return podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod}
}

func kill(pod *v1.Pod, options podworkers.KillOptions) podworkers.UpdateOptions {
	return podworkers.UpdateOptions{Type: podworkers.Kill, Pod: pod, Kill: &options}
}

// log is a list of lines that many goroutines write.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// take returns the lines so far and forgets them.
func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// Eventf makes a log an event recorder.
func (l *log) Eventf(object apiruntime.Object, eventtype, reason, format string, args ...any) {
	pod, _ := object.(*v1.Pod)
	l.add("%s %s %s", eventtype, reason, pod.UID)
}

// logging is a syncer that writes its calls to the log and succeeds.
func logging(l *log) podworkers.PodSyncerFuncs {
	return podworkers.PodSyncerFuncs{
		Sync: func(_ context.Context, t podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
			l.add("setup %s %s", pod.UID, t)
			return podworkers.SyncResult{}, nil
		},
		Terminating: func(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus, grace *int64, _ podworkers.PodStatusFunc) error {
			if grace == nil {
				l.add("terminating %s", pod.UID)
			} else {
				l.add("terminating %s %d", pod.UID, *grace)
			}
			return nil
		},
		TerminatingRuntime: func(_ context.Context, pod *runtime.Pod) error {
			l.add("terminating runtime %s", pod.UID)
			return nil
		},
		Terminated: func(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus) error {
			l.add("terminated %s", pod.UID)
			return nil
		},
	}
}

// untilCancelled waits for the end of ctx and returns its cause, wrapped.
func untilCancelled(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("gave up: %w", context.Cause(ctx))
}

// pass waits in virtual time.
func pass(d time.Duration) { <-time.After(d) }

var errTest = errors.New("broken")

// fakeViews is a status source that a test controls.
type fakeViews struct {
	sequence runtime.Sequence

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced by each reading
	read      runtime.Stamp // stamp of the last complete reading; 0: none
	statuses  map[types.UID]*runtime.PodStatus
	running   []*runtime.Pod
	err       error
	refreshes int
	waits     int
}

func newFakeViews() *fakeViews {
	return &fakeViews{changed: make(chan struct{}), statuses: map[types.UID]*runtime.PodStatus{}}
}

func (f *fakeViews) Stamp() runtime.Stamp { return f.sequence.Next() }

func (f *fakeViews) Refresh(types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refreshes++
}

// last returns the stamp of the last complete reading. asked counts the requests for another.
func (f *fakeViews) last() runtime.Stamp {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read
}

func (f *fakeViews) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refreshes
}

// relist makes a complete reading.
func (f *fakeViews) relist() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = f.sequence.Next()
	close(f.changed)
	f.changed = make(chan struct{})
}

// set changes what later readings of a pod show.
func (f *fakeViews) set(uid types.UID, state runtime.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statuses[uid] = &runtime.PodStatus{UID: uid, Containers: []*runtime.ContainerStatus{{Name: "c", State: state}}}
}

func (f *fakeViews) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// at returns the view as of the last reading; the lock is held.
func (f *fakeViews) at(uid types.UID) *runtime.PodStatus {
	status := &runtime.PodStatus{UID: uid}
	if known := f.statuses[uid]; known != nil {
		copied := *known
		status = &copied
	}
	status.Stamp = f.read
	return status
}

func (f *fakeViews) GetNewerThan(ctx context.Context, uid types.UID, after runtime.Stamp) (*runtime.PodStatus, error) {
	for {
		f.mu.Lock()
		f.waits++
		changed, read, err := f.changed, f.read, f.err
		status := f.at(uid)
		f.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if read > after {
			return status, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("no view: %w", context.Cause(ctx))
		}
	}
}

// peekViews also peeks and lists.
type peekViews struct{ *fakeViews }

func (f peekViews) Peek(uid types.UID) (*runtime.PodStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read == 0 {
		return nil, errors.New("not read yet")
	}
	return f.at(uid), f.err
}

func (f peekViews) RunningAs(namespace, name string) []*runtime.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []*runtime.Pod
	for _, pod := range f.running {
		if pod.Namespace == namespace && pod.Name == name {
			found = append(found, pod)
		}
	}
	return found
}
