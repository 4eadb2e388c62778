package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/podorder"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/logrotate"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// LogRotation bounds the logs of running containers (spec/runtime.md 18.4).
type LogRotation struct {
	// MaxSize is how many bytes a log may have; a larger one is rotated at the
	// next look. 0 means 10 MiB, negative that no log is ever rotated.
	MaxSize int64
	// MaxFiles is how many files a container's run may have, its current log
	// included. At least 2; 0 means 5.
	MaxFiles int
	// Period is the time between two looks at the logs. 0 means 10 s.
	Period time.Duration
}

const (
	defaultLogSize   = 10 << 20
	defaultLogFiles  = 5
	defaultLogPeriod = 10 * time.Second
	// reopenTimeout bounds one call, so that a runtime that hangs on one container
	// does not delay the logs of the others for longer.
	reopenTimeout = 10 * time.Second
	loglessRetry  = time.Hour
)

// complete fills in defaults and reports every problem at once.
func (p *LogRotation) complete() error {
	var problems []error
	if p.MaxFiles != 0 && p.MaxFiles < 2 {
		problems = append(problems, fmt.Errorf("log files per container %d: at least 2 are needed, the log and a rotated one", p.MaxFiles))
	}
	if p.Period < 0 {
		problems = append(problems, fmt.Errorf("period of log rotation %s is negative", p.Period))
	}
	if p.MaxSize == 0 {
		p.MaxSize = defaultLogSize
	}
	if p.MaxFiles == 0 {
		p.MaxFiles = defaultLogFiles
	}
	if p.Period == 0 {
		p.Period = defaultLogPeriod
	}
	return errors.Join(problems...)
}

// LogRotator keeps the logs of running containers small. Make one with
// [Manager.NewLogRotator] and run it once; it rotates one log after the other, and goes on
// if the runtime does not answer for some of them (IN1).
type LogRotator struct {
	manager *Manager
	policy  LogRotation
	running func(ctx context.Context) ([]*runtime.PodStatus, error)
	// before is for tests: see logrotate.Rotation.
	before func(step string) error
	// compressing lets one file be compressed at a time (spec/runtime.md 18.4).
	compressing chan struct{}

	mu sync.Mutex
	// logless has the running containers that still had no log after reopening, and
	// when to reopen again: some runtimes name a log but write none.
	logless map[string]time.Time
	// rotating are the containers whose log is being reopened or rotated.
	rotating map[string]bool
}

// NewLogRotator returns a rotator, or what is wrong with the policy. running
// returns the pods that have running containers; others in the list are ignored.
// Nil: the runtime is asked, with two list calls per look.
func (m *Manager) NewLogRotator(policy LogRotation, running func(ctx context.Context) ([]*runtime.PodStatus, error)) (*LogRotator, error) {
	if err := policy.complete(); err != nil {
		return nil, err
	}
	if running == nil {
		running = m.listed
	}
	return &LogRotator{
		manager: m, policy: policy, running: running, compressing: make(chan struct{}, 1),
		logless: map[string]time.Time{}, rotating: map[string]bool{},
	}, nil
}

// Run checks the logs every period until ctx ends, and returns nil then. Problems
// are logged; the next check tries again.
func (r *LogRotator) Run(ctx context.Context) error {
	if r.policy.MaxSize < 0 {
		<-ctx.Done()
		return nil
	}
	var looks sync.WaitGroup
	defer looks.Wait()
	for {
		if timing.Sleep(ctx, r.manager.options.Clock, r.policy.Period) != nil {
			return nil
		}
		look, err := r.begin(ctx)
		looks.Go(func() {
			if err := look.end(err); err != nil && ctx.Err() == nil {
				r.manager.options.Logger.Info("Some container logs were not rotated or not compressed; the next check tries again", "error", err.Error())
			}
		})
	}
}

// Rotate checks the log of every running container once and rotates what is too large. If a
// log is missing because an agent ended between rename and reopening, the runtime reopens it.
// Pods without a running container are skipped, and so are logs that an earlier check is still
// working on. The error joins all failures; one failure or hanging call does not stop the
// other logs. It must not be called by two goroutines at once.
func (r *LogRotator) Rotate(ctx context.Context) error {
	look, err := r.begin(ctx)
	return look.end(err)
}

// logLook is one check of all logs. Each log that is due has a goroutine.
type logLook struct {
	logs     sync.WaitGroup
	mu       sync.Mutex
	problems []error
}

func (l *logLook) note(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems = append(l.problems, err)
}

// end waits for the logs that were begun, and returns what failed.
func (l *logLook) end(err error) error {
	l.logs.Wait()
	return errors.Join(append(l.problems, err)...)
}

// begin checks all logs and begins what is due, one after the other. What takes long continues
// alongside the next ones.
func (r *LogRotator) begin(ctx context.Context) (*logLook, error) {
	look := &logLook{}
	pods, err := r.running(ctx)
	if err != nil {
		return look, fmt.Errorf("running containers: %w", err)
	}
	dir := false // the log directory is there
	begun := timing.Batch{Clock: r.manager.options.Clock}
	defer begun.Wait(ctx)
	logless := r.takeLogless()
	for _, pod := range pods {
		for _, c := range pod.Containers {
			path, ok := r.manager.logPath(pod, c)
			if !ok || ctx.Err() != nil {
				continue
			}
			if !dir {
				if _, err := os.Stat(r.manager.options.LogDir); err != nil {
					return look, fmt.Errorf("log directory: %w", err)
				}
				dir = true
			}
			due, err := r.claim(path, c, logless[c.ID.ID])
			if err != nil {
				look.note(ofLog(pod, c, err))
			}
			if !due {
				continue
			}
			ended := make(chan struct{})
			look.logs.Go(func() {
				defer close(ended)
				if err := r.bringUp(ctx, path, c); err != nil {
					look.note(ofLog(pod, c, err))
				}
			})
			begun.Add(ctx, ended)
		}
	}
	return look, nil
}

// ofLog names the log that an error is about.
func ofLog(pod *runtime.PodStatus, c *runtime.ContainerStatus, err error) error {
	return fmt.Errorf("log of container %s of pod %s_%s(%s): %w", c.Name, pod.Name, pod.Namespace, pod.UID, err)
}

// takeLogless returns the containers without a log. Those that still run will be noted again.
func (r *LogRotator) takeLogless() map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.logless
	r.logless = map[string]time.Time{}
	return last
}

// claim reports whether something is due for a log, and then reserves the log for this check. retry is
// when to ask for a missing log again. Mostly this is one system call, which may follow links: whatever
// then acts on the log checks it again without following any.
func (r *LogRotator) claim(l containerLog, c *runtime.ContainerStatus, retry time.Time) (due bool, err error) {
	info, err := os.Lstat(filepath.Join(r.manager.options.LogDir, l.path()))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !retry.IsZero() {
			r.logless[c.ID.ID] = retry
		}
		due = !r.manager.options.Clock.Now().Before(retry)
	case err != nil:
		return false, err
	default:
		due = info.Size() >= r.policy.MaxSize
	}
	if !due || r.rotating[c.ID.ID] {
		return false, nil
	}
	r.rotating[c.ID.ID] = true
	return true, nil
}

// containerLog is where a log is: folders and file below the log directory.
type containerLog struct{ pod, container, file string }

func (l containerLog) path() string { return filepath.Join(l.pod, l.container, l.file) }

// logPath returns where the log of a running container is, and false for a
// container that does not run or has no log below the log directory.
func (m *Manager) logPath(pod *runtime.PodStatus, c *runtime.ContainerStatus) (containerLog, bool) {
	l := containerLog{
		pod:       logFolder(pod.Namespace, pod.Name, pod.UID),
		container: c.Name,
		file:      strconv.Itoa(c.RestartCount) + ".log",
	}
	if c.State != runtime.Running || c.RestartCount < 0 ||
		podinfo.CheckName("log directory", l.pod) != nil || podinfo.CheckName("container name", l.container) != nil {
		return l, false
	}
	// The runtime reports which log it writes: none, or one in another place, if the
	// configuration was different when the container was made.
	return l, filepath.Clean(c.LogPath) == filepath.Join(m.options.LogDir, l.pod, l.container, l.file)
}

// bringUp makes the runtime create a missing log, and rotates one that is too large.
func (r *LogRotator) bringUp(ctx context.Context, l containerLog, c *runtime.ContainerStatus) error {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.rotating, c.ID.ID)
	}()
	size, err := r.size(l)
	if errors.Is(err, fs.ErrNotExist) {
		err = r.reopen(ctx, c.ID.ID)
		if class := cri.Class(err); class == runtime.ErrNoLog || class == runtime.ErrUnimplemented {
			r.noteLogless(c.ID.ID)
			return nil
		}
		if err != nil {
			return gone(err)
		}
		if size, err = r.size(l); errors.Is(err, fs.ErrNotExist) {
			r.noteLogless(c.ID.ID)
			return fmt.Errorf("the runtime reopened it but there is no file; trying again in %s", loglessRetry)
		}
	}
	if err != nil || size < r.policy.MaxSize {
		return err
	}
	dir, err := poddir.OpenDir(r.manager.options.LogDir, l.pod, l.container)
	if err != nil {
		return err
	}
	defer dir.Close()
	// The size of a link says nothing, and a link must not be renamed.
	info, err := dir.Lstat(l.file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", l.file, poddir.ErrNotPlain)
	}
	rotation := logrotate.Rotation{
		Dir: dir, Log: l.file, MaxFiles: r.policy.MaxFiles, Now: r.manager.options.Clock.Now(), Before: r.before,
		Compressing: r.compressing, Clock: r.manager.options.Clock,
		Reopen: func(ctx context.Context) error { return r.reopen(ctx, c.ID.ID) },
	}
	return gone(rotation.Run(ctx))
}

// size returns the size of a log.
func (r *LogRotator) size(l containerLog) (int64, error) {
	root, err := os.OpenRoot(r.manager.options.LogDir)
	if err != nil {
		return 0, fmt.Errorf("log directory: %w", err)
	}
	defer root.Close()
	info, err := root.Lstat(l.path())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (r *LogRotator) noteLogless(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logless[id] = r.manager.options.Clock.Now().Add(loglessRetry)
}

// reopen makes the runtime open the log by its name again.
func (r *LogRotator) reopen(ctx context.Context, id string) error {
	ctx, cancel := timing.WithTimeout(ctx, r.manager.options.Clock, reopenTimeout)
	defer cancel()
	return r.manager.runtime.ReopenContainerLog(ctx, id)
}

// gone drops the error of a container that ended meanwhile: its log has its name back
// and no longer grows. Neither does a log that the runtime does not write.
func gone(err error) error {
	switch cri.Class(err) {
	case runtime.ErrNotFound, runtime.ErrFailedPrecondition, runtime.ErrNoLog:
		return nil
	}
	return err
}

// listed asks the runtime what runs. Lists do not say where logs are, so the usual
// places are assumed.
func (m *Manager) listed(ctx context.Context) ([]*runtime.PodStatus, error) {
	pods, err := m.view.ListPods(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*runtime.PodStatus, 0, len(pods))
	for _, p := range pods {
		status := &runtime.PodStatus{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
		for _, c := range p.Containers {
			count, ours := podorder.RestartCount(c.Annotations)
			if !ours {
				continue
			}
			status.Containers = append(status.Containers, &runtime.ContainerStatus{
				ID: c.ID, Name: c.Name, State: c.State, RestartCount: count,
				LogPath: filepath.Join(m.options.LogDir, logFolder(p.Namespace, p.Name, p.UID), c.Name, strconv.Itoa(count)+".log"),
			})
		}
		out = append(out, status)
	}
	return out, nil
}
