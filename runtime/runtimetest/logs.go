package runtimetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func logCases() []namedCase {
	return []namedCase{
		{"lines have time, stream and tag", logFormat},
		{"a long line is split and marked", logPartial},
		{"the last line needs no newline", logUnterminated},
		{"the path is reported", logPath},
		{"each attempt has its own file", logAttempts},
		{"reopening follows a rename", logReopen},
		{"only a running container's log is reopened", logReopenExited},
	}
}

// entry is one line of a log file (spec/runtime.md 18.3).
type entry struct {
	time    time.Time
	stream  string
	partial bool
	text    string
}

// logEntries parses a log file.
func (e *env) logEntries(path string) []entry {
	e.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		e.Fatalf("read the container's log, %q by its status: %v", path, err)
	}
	var entries []entry
	for _, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
		if line == "" {
			continue
		}
		parsed, err := parseEntry(line)
		if err != nil {
			e.Fatalf("log line %.80q: %v", line, err)
		}
		entries = append(entries, parsed)
	}
	return entries
}

// parseEntry parses "time stream tag[:tag...] text".
func parseEntry(line string) (entry, error) {
	fields := strings.SplitN(line, " ", 4)
	if len(fields) < 4 {
		return entry{}, fmt.Errorf("%d fields, want 4", len(fields))
	}
	at, err := time.Parse(time.RFC3339Nano, fields[0])
	if err != nil {
		return entry{}, err
	}
	if fields[1] != "stdout" && fields[1] != "stderr" {
		return entry{}, fmt.Errorf("stream %q", fields[1])
	}
	tag, _, _ := strings.Cut(fields[2], ":")
	if tag != "F" && tag != "P" {
		return entry{}, fmt.Errorf("tag %q", fields[2])
	}
	return entry{time: at, stream: fields[1], partial: tag == "P", text: fields[3]}, nil
}

// texts joins partial entries of a stream into lines.
func texts(entries []entry, stream string) []string {
	var out []string
	open := ""
	for _, en := range entries {
		if en.stream != stream {
			continue
		}
		open += en.text
		if !en.partial {
			out = append(out, open)
			open = ""
		}
	}
	if open != "" {
		out = append(out, open)
	}
	return out
}

func logFormat(e *env) {
	s := e.sandbox()
	out, errOut := []string{"first", "", "  third  "}, []string{"warning", "ünïcode ☃"}
	st := e.finish(s, Program{Stdout: out, Stderr: errOut})
	entries := e.logEntries(st.GetLogPath())
	if got := texts(entries, "stdout"); !slices.Equal(got, out) {
		e.Errorf("stdout %q, want %q", got, out)
	}
	if got := texts(entries, "stderr"); !slices.Equal(got, errOut) {
		e.Errorf("stderr %q, want %q", got, errOut)
	}
	before := map[string]time.Time{}
	for _, en := range entries {
		if en.time.Before(before[en.stream]) {
			e.Errorf("times of %s go back at %q", en.stream, en.text)
		}
		before[en.stream] = en.time
		if en.partial {
			e.Errorf("short line %q is marked partial", en.text)
		}
	}
}

// logPartial: the runtime chooses where to split a line; joined, the pieces must
// give the line.
func logPartial(e *env) {
	s := e.sandbox()
	long := strings.Repeat("0123456789abcdef", 4096) // 64 KiB
	entries := e.logEntries(e.finish(s, Program{Stdout: []string{long, "short"}}).GetLogPath())
	if got := texts(entries, "stdout"); len(got) != 2 || got[0] != long || got[1] != "short" {
		e.Errorf("the pieces join to %d lines, want the long and the short one", len(got))
	}
	if len(entries) == 2 {
		return // not split at all is fine
	}
	for i, en := range entries {
		if last := i >= len(entries)-2; en.partial == last {
			e.Errorf("entry %d of %d: partial %v", i, len(entries), en.partial)
		}
	}
}

func logUnterminated(e *env) {
	s := e.sandbox()
	st := e.finish(s, Program{Stdout: []string{"line"}, Unterminated: "rest"})
	if got := texts(e.logEntries(st.GetLogPath()), "stdout"); !slices.Equal(got, []string{"line", "rest"}) {
		e.Errorf("stdout %q, want line, rest", got)
	}
}

// logPath: the status names the absolute path, the config a path below the
// sandbox's log folder (spec/runtime.md 18.1).
func logPath(e *env) {
	s := e.sandbox()
	config := e.containerConfig(s, Program{})
	id := e.createFrom(s, config)
	e.must(e.Runtime.StartContainer(e.ctx, id))
	want := filepath.Join(s.config.GetLogDirectory(), config.GetLogPath())
	if got := e.waitExited(id).GetLogPath(); got != want {
		e.Errorf("log path %q, want %q", got, want)
	}
	if _, err := os.Stat(want); err != nil {
		e.Errorf("a container that printed nothing has no log file: %v", err)
	}
}

func logAttempts(e *env) {
	s := e.sandbox()
	name := ""
	for attempt := range 2 {
		text := fmt.Sprintf("attempt %d", attempt)
		st := e.finish(s, Program{Stdout: []string{text}}, func(c *runtimeapi.ContainerConfig) {
			if name == "" {
				name = c.GetMetadata().GetName()
			}
			c.Metadata = &runtimeapi.ContainerMetadata{Name: name, Attempt: uint32(attempt)}
			c.LogPath = filepath.Join(name, fmt.Sprintf("%d.log", attempt))
		})
		if got := texts(e.logEntries(st.GetLogPath()), "stdout"); !slices.Equal(got, []string{text}) {
			e.Errorf("log of attempt %d: %q", attempt, got)
		}
	}
}

// logReopen: after rename and reopen new lines go to a new file of the old name,
// and no line is torn or lost (spec/runtime.md 18.4).
func logReopen(e *env) {
	if e.Limits.NoLogReopen {
		e.Skip("the runtime does not reopen logs")
	}
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever, Repeat: "tick"})
	path := e.logMade(id)
	grows := func() bool {
		e.status(id) // a simulated runtime moves only when asked
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	}
	e.eventually("lines in the log "+path, grows)
	rotated := path + ".rotated"
	e.must(os.Rename(path, rotated))
	e.must(e.Runtime.ReopenContainerLog(e.ctx, id))
	e.eventually("lines in the new log "+path+" after rename and reopening", grows)
	e.must(e.Runtime.StopContainer(e.ctx, id, longGrace))
	for _, p := range []string{rotated, path} {
		for _, text := range texts(e.logEntries(p), "stdout") {
			if text != "tick" {
				e.Errorf("%s has a torn line: %q", filepath.Base(p), text)
			}
		}
	}
}

func logReopenExited(e *env) {
	if e.Limits.NoLogReopen {
		e.Skip("the runtime does not reopen logs")
	}
	s := e.sandbox()
	id := e.finish(s, Program{}).GetId()
	if err := e.Runtime.ReopenContainerLog(e.ctx, id); err == nil {
		e.Error("the log of an exited container was reopened")
	}
	e.wantNotFound("reopen for an unknown container", e.Runtime.ReopenContainerLog(e.ctx, unknownID))
}
