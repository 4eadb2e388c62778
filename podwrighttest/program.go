package podwrighttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/podwright/podwright/runtime/fake"
)

// Program is what a container does. The zero value is ready at once, runs until it is told to
// stop, and then stops at once with code 0. In JSON, durations are strings such as "1m30s":
//
//	{"web": {"readyAfter": "5s"}, "job/main": {"runsFor": "1m", "exitsWith": 3, "times": 2}}
type Program struct {
	// RunsFor is how long it runs before it ends by itself. 0 means until it is stopped; with
	// ExitsWith or Exits it means that it ends at once.
	RunsFor time.Duration
	// ExitsWith is the exit code with which it ends by itself, 0 to 255.
	ExitsWith int32
	// Exits makes a program without RunsFor and ExitsWith end at once, with code 0.
	Exits bool
	// Reason is that of this end, such as OOMKilled. Empty means Completed or Error, depending on the code.
	Reason string
	// Times is how many runs of the container end by themselves; later ones run until they are
	// stopped. 0 means every run. A container that is created but never started counts as a run.
	Times int

	// IgnoresTERM makes it keep running when it is told to stop, until it is killed after the
	// pod's grace period.
	IgnoresTERM bool
	// StopsIn is how long it takes to end when it is told to stop, StoppedWith its exit code then.
	StopsIn     time.Duration
	StoppedWith int32

	// ReadyAfter is how long after its start the commands run in it, such as those of exec
	// probes, begin to succeed; before that they fail.
	ReadyAfter time.Duration
	// Prints are lines that it writes to its log when it starts.
	Prints []string
	// StartError, if not empty, makes every start fail with this text.
	StartError string
}

// ends reports whether the program ends by itself.
func (p *Program) ends() bool { return p.RunsFor > 0 || p.ExitsWith != 0 || p.Exits }

// check reports everything that is wrong with a program.
func (p *Program) check() error {
	var problems []error
	length := func(name string, d time.Duration) {
		if d < 0 {
			problems = append(problems, fmt.Errorf("%s %v is negative", name, d))
		}
	}
	length("runsFor", p.RunsFor)
	length("stopsIn", p.StopsIn)
	length("readyAfter", p.ReadyAfter)
	exitCode := func(name string, code int32) {
		if code < 0 || code > 255 {
			problems = append(problems, fmt.Errorf("%s %d is not an exit code (0 to 255)", name, code))
		}
	}
	exitCode("exitsWith", p.ExitsWith)
	exitCode("stoppedWith", p.StoppedWith)
	if p.Times < 0 {
		problems = append(problems, fmt.Errorf("times %d is negative", p.Times))
	}
	if (p.Times > 0 || p.Reason != "") && !p.ends() {
		problems = append(problems, errors.New("times and reason describe an end, but the program does not end by itself: set runsFor, exitsWith or exits"))
	}
	return errors.Join(problems...)
}

// script returns the program as the runtime takes it.
func (p *Program) script(run int) fake.Script {
	s := fake.Script{
		IgnoreTERM: p.IgnoresTERM, OnTERM: fake.Exit{After: p.StopsIn, Code: p.StoppedWith}, ReadyAfter: p.ReadyAfter,
	}
	if p.ends() && (p.Times == 0 || run <= p.Times) {
		s.Exit = &fake.Exit{After: p.RunsFor, Code: p.ExitsWith, Reason: p.Reason}
	}
	for _, line := range p.Prints {
		s.Log = append(s.Log, fake.Line{Text: line})
	}
	if p.StartError != "" {
		s.StartErr = errors.New(p.StartError)
	}
	return s
}

// SetProgram sets the program of containers that are created from now on; see Options.Programs
// for the name.
func (n *Node) SetProgram(name string, p Program) {
	n.t.Helper()
	if err := p.check(); err != nil {
		n.t.Fatalf("SetProgram: %v", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.programs[name] = p
}

// script chooses the program of a new container.
func (n *Node) script(l fake.Launch) fake.Script {
	n.mu.Lock()
	p, ok := n.programs[l.PodName+"/"+l.Container]
	if !ok {
		p = n.programs[l.Container]
	}
	n.mu.Unlock()
	return p.script(l.Number)
}

// ParsePrograms reads programs from a JSON object with the keys of Options.Programs. Unknown
// fields and impossible values are errors that name the program.
func ParsePrograms(text []byte) (map[string]Program, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("programs: %w", err)
	}
	out := map[string]Program{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		var p Program
		if err := p.UnmarshalJSON(raw[name]); err != nil {
			problems = append(problems, fmt.Errorf("program %q: %w", name, err))
		}
		out[name] = p
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return out, nil
}

// UnmarshalJSON reads one program; see [ParsePrograms].
func (p *Program) UnmarshalJSON(text []byte) error {
	var raw struct {
		RunsFor, StopsIn, ReadyAfter span
		ExitsWith, StoppedWith       int32
		Exits, IgnoresTERM           bool
		Reason, StartError           string
		Times                        int
		Prints                       []string
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&raw); err != nil {
		return err
	}
	*p = Program{
		RunsFor: time.Duration(raw.RunsFor), ExitsWith: raw.ExitsWith, Exits: raw.Exits, Reason: raw.Reason, Times: raw.Times,
		IgnoresTERM: raw.IgnoresTERM, StopsIn: time.Duration(raw.StopsIn), StoppedWith: raw.StoppedWith,
		ReadyAfter: time.Duration(raw.ReadyAfter), Prints: raw.Prints, StartError: raw.StartError,
	}
	return p.check()
}

// span is a duration in JSON.
type span time.Duration

func (s *span) UnmarshalJSON(text []byte) error {
	var written string
	if err := json.Unmarshal(text, &written); err != nil {
		return fmt.Errorf("a time is a string such as \"1m30s\", not %s", text)
	}
	d, err := time.ParseDuration(written)
	*s = span(d)
	return err
}
