package machine

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

var rewrite = flag.Bool("rewrite", false, "write what happened into the scenario files instead of comparing")

// TestScenarios runs podworkers/testdata/*.txt. Lines that begin with ">" are
// commands; the lines below are what they cause. Every invariant is checked after
// every command. See testdata/README.md for the commands.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../../testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			after, err := replayScenario(before)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(before, after) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(file, after, 0o644); err != nil { //nolint:gosec // a source file
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s is not what happens (-rewrite accepts it):\n%s", file, after)
		})
	}
}

// replayScenario runs the commands of a file and returns the file with what they cause.
func replayScenario(file []byte) ([]byte, error) {
	s := &scenario{world: newWorld(defaultConfig()), channels: map[string]chan struct{}{}}
	if err := s.apply(&Event{Kind: EventRun}); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for n, line := range strings.Split(strings.TrimRight(string(file), "\n"), "\n") {
		command, isCommand := strings.CutPrefix(line, "> ")
		if !isCommand {
			if line == "" || line[0] == '#' {
				out.WriteString(line + "\n")
			}
			continue
		}
		out.WriteString(line + "\n")
		s.out = &out
		if err := s.command(strings.Fields(command)); err != nil {
			return nil, fmt.Errorf("line %d, %s: %w", n+1, command, err)
		}
	}
	return out.Bytes(), nil
}

func defaultConfig() Config {
	return Config{
		SyncFrequency: time.Minute,
		SetupBackOff:  BackOff{time.Second, 300 * time.Second}, TerminatingBackOff: BackOff{time.Second, 10 * time.Second},
		StuckAfter: 30 * time.Second, Schedules: true,
	}
}

// scenario is a world driven by text.
type scenario struct {
	*world
	out      *bytes.Buffer
	manual   bool // dispatch only on the command take
	verbose  bool // print ended schedules too
	last     map[types.UID]*Call
	channels map[string]chan struct{}
}

// args are the words of a command after the first: a UID, then words and k=v.
type args struct {
	uid    types.UID
	words  []string
	values map[string]string
}

func parseArgs(fields []string) args {
	a := args{values: map[string]string{}}
	for i, f := range fields {
		k, v, ok := strings.Cut(f, "=")
		switch {
		case ok:
			a.values[k] = v
		case i == 0:
			a.uid = types.UID(f)
		default:
			a.words = append(a.words, f)
			a.values[f] = ""
		}
	}
	return a
}

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func (s *scenario) printf(format string, values ...any) {
	if s.out != nil {
		fmt.Fprintf(s.out, format+"\n", values...)
	}
}

// command runs one command, and everything that it makes ready.
func (s *scenario) command(fields []string) error {
	a := parseArgs(fields[1:])
	possible, err := true, error(nil)
	switch fields[0] {
	case "config":
		err = s.configure(fields[1:])
	case "run":
		err = s.apply(&Event{Kind: EventRun})
	case "create", "restart", "update", "sync", "kill", "runtime-kill":
		err = s.updatePod(fields[0], a)
	case "take":
		possible, err = s.take(a.uid)
	case "observe":
		o := Observation{Failed: a.has("failed"), Known: !a.has("unknown"), Running: a.has("running")}
		if other := a.values["other"]; other != "" {
			o.Others = []Other{s.other(types.UID(other), a)}
		}
		if a.values["sources"] != "" {
			ready := a.values["sources"] == "ready"
			o.SourcesReady = &ready
		}
		possible, err = s.observe(a.uid, o)
	case "stale":
		possible, err = s.stale(a.uid)
	case "view":
		possible, err = s.viewReady(a.uid)
	case "ok", "fail", "panic", "canceled", "view-error":
		possible, err = s.end(fields[0], a)
	case "forget":
		possible, err = s.forget(a.uid)
	case "hold":
		possible, err = s.hold(a.uid)
	case "release":
		possible, err = s.unhold(a.uid)
	case "elapse":
		possible, err = s.elapse(a.uid)
	case "advance":
		return s.advance(string(a.uid))
	case "known":
		return s.known(fields[1:])
	case "stop":
		err = s.apply(&Event{Kind: EventStop, Stop: Stop{Mode: map[types.UID]StopMode{"terminate": StopTerminate, "now": StopNow}[a.uid], Grace: seconds(a.values["grace"])}})
	case "late":
		c := s.last[a.uid]
		for _, kind := range []EventKind{EventDone, EventStale, EventViewReady} {
			ev := Event{Kind: kind, Call: c}
			if err := s.apply(&ev); err != nil {
				return err
			}
			if ev.Answer.Continue {
				return fmt.Errorf("a late call may go on")
			}
			s.print()
		}
	case "stats":
		st := s.m.Stats()
		uids := s.m.Calls()
		slices.Sort(uids)
		s.printf("setup %d, terminating %d, runtime %d, terminated %d; static waiting %d, stuck %d, records %d; in flight %d %v",
			st.InPhase[0], st.InPhase[1], st.InPhase[2], st.InPhase[3], st.WaitingStatic, st.Stuck, st.Records, s.m.InFlight(), uids)
		return nil
	case "table":
		s.table()
		return nil
	case "explain":
		s.explainPod(a.uid)
		return nil
	default:
		return fmt.Errorf("unknown command")
	}
	if !possible {
		s.printf("not possible now")
	}
	s.print()
	if err != nil || s.manual {
		return err
	}
	err = s.apply(&Event{Kind: EventDispatch})
	s.print()
	return err
}

func (s *scenario) configure(fields []string) error {
	a := parseArgs(append([]string{""}, fields...))
	s.manual, s.verbose = a.has("hold"), a.has("verbose")
	config := defaultConfig()
	config.Metrics, config.Journal = a.has("metrics"), a.has("journal")
	config.Views, config.Observe = a.values["views"] == "true", a.values["observe"] == "true"
	for k, v := range a.values {
		d, _ := time.ParseDuration(v)
		switch k {
		case "deadline":
			config.SetupDeadline, config.TerminatingDeadline, config.TerminatedDeadline = d, 2*d, 3*d
		case "stuck":
			config.StuckAfter = d
		case "kubelet":
			config.SetupBackOff = BackOff{10 * time.Second, 10 * time.Second}
			config.TerminatingBackOff = config.SetupBackOff
		}
	}
	s.world = newWorld(config)
	return s.apply(&Event{Kind: EventRun})
}

// other returns a pod that runs under the name of the observing one. The value "spec" makes it
// a remembered pod; "grace" is what is left if it already had to stop. The flag "spared" spares it.
func (s *scenario) other(uid types.UID, a args) Other {
	o := Other{Running: &runtime.Pod{UID: uid, Name: s.nameOf(a.uid), Namespace: "default"}, Spared: a.has("spared")}
	if spec := a.values["spec"]; spec != "" {
		o.Pod = makePod(uid, map[string]string{"spec": spec, "static": s.nameOf(a.uid)})
		o.Kill = &Kill{Grace: seconds(a.values["grace"])}
	}
	return o
}

func (s *scenario) nameOf(uid types.UID) string {
	if r := s.m.records[uid]; r != nil {
		_, name := r.nameOf()
		return name
	}
	return string(uid)
}

func (s *scenario) updatePod(verb string, a args) error {
	u := Update{Type: map[string]UpdateType{"create": TypeCreate, "restart": TypeRestart, "update": TypeUpdate, "sync": TypeSync}[verb]}
	if verb == "kill" || verb == "runtime-kill" {
		u.Type = TypeKill
	}
	attrs := map[string]string{"spec": "30"}
	for k, v := range a.values {
		attrs[k] = v
	}
	if verb == "runtime-kill" {
		name := string(a.uid)
		if a.values["static"] != "" {
			name = a.values["static"]
		}
		u.Running = &runtime.Pod{UID: a.uid, Name: name, Namespace: "default"}
		if a.values["type"] == "update" {
			u.Type = TypeUpdate
		}
	} else {
		u.Pod = makePod(a.uid, attrs)
	}
	if a.values["mirror"] != "" {
		u.Mirror = makePod(types.UID(a.values["mirror"]), nil)
	}
	u.ViewStopped = a.has("stopped")
	if a.has("seen") {
		u.Running = &runtime.Pod{UID: a.uid}
	}
	if at := a.values["at"]; at != "" {
		d, err := time.ParseDuration(at)
		if err != nil {
			return err
		}
		u.Start, u.HasStart = d, true
	}
	k := &Kill{Evict: a.has("evict"), Grace: seconds(a.values["grace"])}
	if a.values["status"] != "" {
		k.StatusFunc = status(a.values["status"])
	}
	if name := a.values["done"]; name != "" {
		if s.channels[name] == nil {
			s.channels[name] = make(chan struct{})
		}
		k.Completion.Ch = s.channels[name]
	}
	if k.Evict || k.Grace != nil || k.StatusFunc != nil || k.Completion.Ch != nil {
		u.Kill = k
	}
	outcome, err := s.update(u)
	s.printf("-> %s", [...]string{
		"", "queued", "merged", "restart remembered", "ignored: finished",
		"ignored: invalid", "ignored: stale", "stopped",
	}[outcome])
	return err
}

func (s *scenario) end(verb string, a args) (bool, error) {
	r := Result{SyncResult: SyncResult{Acted: a.has("acted"), Terminal: a.has("terminal")}}
	if verb != "ok" {
		r.Err = errTest
	}
	switch verb {
	case "panic":
		r.Failure = FailurePanic
	case "view-error":
		r.Failure = FailureView
		c := s.life(a.uid).call
		r.Canceled = c != nil && c.cause != CauseNone
	case "canceled":
		r.Canceled = true
	}
	if a.has("network") {
		r.Retry = RetryNetwork
	}
	if v := a.values["requeue"]; v != "" {
		r.Requeue = true
		r.RetryAfter, _ = time.ParseDuration(v)
	}
	if v := a.values["retry"]; v != "" {
		r.Retry = RetryExplicit
		r.RetryAfter, _ = time.ParseDuration(v)
	}
	if c := s.life(a.uid).call; c != nil {
		if s.last == nil {
			s.last = map[types.UID]*Call{}
		}
		s.last[a.uid] = c
		if s.m.config.Journal && r.Failure != FailureView && (c.Record || r.Err == nil && (c.Phase != Setup || r.Terminal)) {
			// The shell records before the call, and after one that ended a phase.
			r.Recorded, r.RecordedFacts = true, c.Facts
			if r.Err == nil && (c.Phase != Setup || r.Terminal) {
				r.RecordedFacts.TerminationRequested = true
				r.RecordedFacts.Terminated = c.Phase != Setup
				r.RecordedFacts.Finished = c.Phase == Terminated
			}
		}
	}
	return s.done(a.uid, r)
}

// advance moves the time forward and handles everything due.
func (s *scenario) advance(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	until := s.now + d
	for {
		due, ok := s.m.NextDue()
		if !ok || due > until {
			s.now = until
			return nil
		}
		s.now = max(s.now, due)
		for _, kind := range []EventKind{EventTick, EventDispatch} {
			if kind == EventDispatch && s.manual {
				continue
			}
			if err := s.apply(&Event{Kind: kind}); err != nil {
				return err
			}
			s.print()
		}
	}
}

func (s *scenario) known(uids []string) error {
	ev := Event{Kind: EventSyncKnown}
	for _, uid := range uids {
		ev.Desired = append(ev.Desired, makePod(types.UID(uid), nil))
	}
	var lines []string
	ev.Known = func(uid types.UID, k PodSync) {
		work := "sync"
		switch {
		case k.State.Terminated():
			work = "terminated"
		case k.State.Terminating():
			work = "terminating"
		}
		line := fmt.Sprintf("-> %s %s", uid, work)
		for _, word := range []struct {
			set  bool
			text string
		}{{k.Orphan, " orphan"}, {!k.HasConfig, " runtime-only"}, {k.Static, " static"}, {k.Restart, " restart"}} {
			if word.set {
				line += word.text
			}
		}
		lines = append(lines, line)
	}
	err := s.apply(&ev)
	slices.Sort(lines)
	for _, line := range lines {
		s.printf("%s", line)
	}
	if len(lines) == 0 {
		s.printf("-> none")
	}
	s.print()
	if err != nil || s.manual {
		return err
	}
	err = s.apply(&Event{Kind: EventDispatch})
	s.print()
	return err
}
