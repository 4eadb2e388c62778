package containerlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime/pods/internal/logrotate"
)

// modelEntry is one entry of a log, as the model keeps it.
type modelEntry struct {
	at           time.Time
	stream, text string
	whole        bool
}

// modelShows is what options show of a log that nothing changes: a second opinion, which knows no files
// and no pieces.
func modelShows(entries []modelEntry, o Options) string {
	shown := entries
	if o.Tail != nil {
		found, begin, counted := int64(0), len(entries), false
		for i := len(entries) - 1; i >= 0; i-- {
			if e := entries[i]; o.Stream == "" || e.stream == o.Stream {
				if e.whole || !counted {
					found++
				}
				counted = true
				if found > *o.Tail {
					break
				}
			}
			begin = i
		}
		shown = entries[begin:]
	}
	type open struct {
		at   time.Time
		text string
	}
	lines, out := map[string]*open{}, ""
	write := func(l *open) {
		if o.Timestamps {
			out += l.at.Format(timeFormat) + " "
		}
		out += l.text
	}
	for _, e := range shown {
		if o.Stream != "" && e.stream != o.Stream || e.at.Before(o.Since) {
			continue
		}
		l := lines[e.stream]
		if l == nil {
			l = &open{at: e.at}
			lines[e.stream] = l
		}
		if l.text += e.text; e.whole {
			write(l)
			out += "\n"
			delete(lines, e.stream)
		}
	}
	for _, stream := range []string{Stdout, Stderr} {
		if l := lines[stream]; l != nil && l.text != "" {
			if out != "" && !strings.HasSuffix(out, "\n") {
				out += "\n"
			}
			write(l)
		}
	}
	if o.LimitBytes != nil {
		out = out[:min(int64(len(out)), *o.LimitBytes)]
	}
	return out
}

// Whatever is written and however it is rotated and compressed, the options show what they say
// (spec/runtime.md 27.3, 27.4).
func TestOptionsShowWhatTheModelShows(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 3))
		w := newLog(t)
		var entries []modelEntry
		for range 1 + random.IntN(60) {
			if random.IntN(8) == 0 {
				w.mustRotate()
				continue
			}
			e := modelEntry{stream: Stdout, whole: random.IntN(3) > 0}
			if random.IntN(2) == 0 {
				e.stream = Stderr
			}
			size := random.IntN(12)
			if random.IntN(20) == 0 {
				size = random.IntN(3 * readBlock / 2)
			}
			e.text = strings.Repeat(string(rune('a'+random.IntN(26))), size)
			tag := "P"
			if e.whole {
				tag = "F"
			}
			w.entry(e.stream, tag, e.text)
			e.at = w.now
			entries = append(entries, e)
		}
		if len(entries) == 0 {
			continue
		}
		for range 20 {
			o := Options{Timestamps: random.IntN(2) == 0, Stream: []string{"", Stdout, Stderr}[random.IntN(3)]}
			if random.IntN(2) == 0 {
				o.Tail = number(int64(random.IntN(len(entries) + 2)))
			}
			if random.IntN(3) == 0 {
				o.Since = entries[random.IntN(len(entries))].at
			}
			if random.IntN(3) == 0 {
				o.LimitBytes = number(1 + random.Int64N(200))
			}
			got, want := w.show(o), modelShows(entries, o)
			if got != want {
				t.Fatalf("seed %d, tail %v, since %v, stream %q, timestamps %v, limit %v:\n%.300q, want\n%.300q", seed,
					deref(o.Tail), o.Since, o.Stream, o.Timestamps, deref(o.LimitBytes), got, want)
			}
		}
	}
}

func deref(n *int64) any {
	if n == nil {
		return "none"
	}
	return *n
}

// A client that is stuck while a rotation fails, and still is when the file is rotated after all, sees each
// line once and in order, wherever the clock is set to meanwhile (spec/runtime.md 27.4).
func TestStuckClientMissesAFailedRotation(t *testing.T) {
	for name, step := range map[string]time.Duration{"the next look": 10 * time.Second, "the clock is set back": -time.Hour} {
		for _, compressed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, compressed %v", name, compressed), func(t *testing.T) {
				w := newLog(t)
				synctest.Test(t, func(t *testing.T) {
					at := w.now
					rotate := func(before func(string) error, reopen func() error) error {
						r := logrotate.Rotation{
							Dir: w.dir, Log: place.File, MaxFiles: 1000, Now: at, Before: before,
							Reopen: func(context.Context) error { return reopen() },
						}
						return r.Run(t.Context())
					}
					reopen := func() error { w.reopen(); return nil }
					w.entry("stdout", "F", "<0>")
					stuck := false
					free := make(chan struct{})
					var f *following
					err := rotate(func(step string) error {
						if step == "reopen" {
							f = w.follow(t.Context(), Options{}, func() {
								if stuck {
									<-free
								}
							})
							<-time.After(time.Second) // the reader has the file under its new name
							stuck = true
							w.entry("stdout", "F", "<1>")
							<-time.After(time.Second) // the client hangs
						}
						return nil
					}, func() error { return errors.New("the runtime does not answer") })
					if err == nil || f == nil {
						t.Fatal("the rotation did not fail")
					}
					w.entry("stdout", "F", "<2>")
					rotations := 1
					if compressed {
						rotations = 2
					}
					for i := range rotations {
						at = at.Add(step)
						if err := rotate(nil, reopen); err != nil {
							t.Fatal(err)
						}
						w.entry("stdout", "F", fmt.Sprintf("<%d>", 3+i))
					}
					close(free)
					<-time.After(time.Second)
					at = at.Add(10 * time.Second)
					if err := rotate(nil, reopen); err != nil {
						t.Fatal(err)
					}
					w.entry("stdout", "F", fmt.Sprintf("<%d>", 3+rotations))
					<-time.After(time.Second)
					f.ended.Store(true)
					<-f.done
					if f.err != nil {
						t.Error(f.err)
					}
					compare(t, 0, f.text(), 0, 4+rotations)
				})
			})
		}
	}
}

// A compressed file that the rotation removes while its lines are counted is still shown.
func TestTailOfAFileThatIsRemovedMeanwhile(t *testing.T) {
	w := newLog(t)
	w.entry("stdout", "F", "one")
	w.entry("stdout", "F", "two")
	w.mustRotate()
	w.mustRotate() // compresses the first
	c := &copying{folder: folder{dir: w.dir, log: place.File}, stream: none}
	rotated, err := c.rotated()
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.openRotated(rotated[0])
	if err != nil || !s.zipped {
		t.Fatalf("%+v, %v: want a compressed file", s, err)
	}
	defer func() { s.close() }()
	if err := w.dir.Remove(logrotate.Compressed(rotated[0])); err != nil {
		t.Fatal(err)
	}
	done, err := c.count(&counter{want: 1, stream: none}, s)
	if !done || err != nil || c.skip != 1 {
		t.Fatalf("counted: %v, %d lines to skip, %v", done, c.skip, err)
	}
	if text, err := io.ReadAll(s.in); err != nil || bytes.Count(text, []byte("\n")) != 2 {
		t.Errorf("%q, %v", text, err)
	}
}

// A line whose end was lost, as on a full disk, is a line of its own: the first line of the next file is not part of it.
func TestTornLineAtTheEndOfAFile(t *testing.T) {
	for _, text := range []string{"torn", strings.Repeat("x", readBlock)} {
		w := newLog(t)
		w.raw(w.now.Format(timeFormat) + " stdout F " + text)
		w.mustRotate()
		w.entry("stdout", "F", "next")
		w.mustRotate()
		w.entry("stdout", "F", "last")
		for _, tail := range []*int64{nil, number(10)} {
			if got := strings.Split(w.show(Options{Tail: tail}), "\n"); !slices.Equal(got, []string{text, "next", "last", ""}) {
				t.Errorf("%d lines: %.80q", len(got), got)
			}
		}
	}
}

// A runtime that writes to both files for a moment, as it does when it opens the new one: what it wrote to the old
// one before is shown before what it wrote to the new one after (spec/runtime.md 27.4).
func TestLateLinesOfTheOldFileComeFirst(t *testing.T) {
	w := newLog(t)
	synctest.Test(t, func(t *testing.T) {
		w.entry("stdout", "F", "<0>")
		var old *os.File
		writes := 0
		f := w.follow(t.Context(), Options{}, func() {
			if writes++; writes != 2 {
				return
			}
			fresh := w.file // the reader is within the new file
			w.file = old
			w.entry("stdout", "F", "<2>")
			w.file = fresh
			w.entry("stdout", "F", "<3>")
		})
		<-time.After(time.Second)
		if err := w.rotate(nil, func() error {
			old, w.file = w.file, nil
			w.reopen()
			w.entry("stdout", "F", "<1>"+strings.Repeat("x", readBlock))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		f.ended.Store(true)
		<-f.done
		if err := errors.Join(f.err, old.Close()); err != nil || writes < 3 {
			t.Errorf("%d writes, %v", writes, err)
		}
		compare(t, 0, f.text(), 0, 4)
	})
}
