package containerlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime/pods/internal/logrotate"
)

// written is a log that a test writes as a runtime does.
type written struct {
	t    *testing.T
	root string
	dir  *os.Root
	file *os.File
	now  time.Time
	// skew is how far the agent's clock is from now.
	skew time.Duration
}

var place = Log{Pod: "pod", Container: "app", File: "0.log"}

func newLog(t *testing.T) *written {
	t.Helper()
	root := t.TempDir()
	folder := filepath.Join(root, place.Pod, place.Container)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	w := &written{t: t, root: root, dir: dir, now: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	w.reopen()
	t.Cleanup(func() { dir.Close(); w.file.Close() })
	return w
}

// reopen opens the log by its name.
func (w *written) reopen() {
	file, err := w.dir.OpenFile(place.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		w.t.Fatal(err)
	}
	w.file.Close()
	w.file = file
}

// entry appends an entry a millisecond after the one before.
func (w *written) entry(stream, tag, text string) {
	w.now = w.now.Add(time.Millisecond)
	w.raw(fmt.Sprintf("%s %s %s %s\n", w.now.Format(timeFormat), stream, tag, text))
}

func (w *written) raw(text string) {
	if _, err := w.file.WriteString(text); err != nil {
		w.t.Error(err)
	}
}

// rotate rotates the log; before, if not nil, is called before each step.
func (w *written) rotate(before func(step string) error, reopen func() error) error {
	r := logrotate.Rotation{
		Dir: w.dir, Log: place.File, MaxFiles: 1000, Now: w.now.Add(w.skew), Before: before,
		Reopen: func(context.Context) error { return reopen() },
	}
	return r.Run(w.t.Context())
}

func (w *written) mustRotate() {
	w.t.Helper()
	if err := w.rotate(nil, func() error { w.reopen(); return nil }); err != nil {
		w.t.Fatal(err)
	}
}

func (w *written) reader() *Reader {
	r := New(w.root, nil)
	r.watch = func(string) (<-chan struct{}, func()) { return nil, func() {} }
	return r
}

// show returns what the log shows.
func (w *written) show(options Options) string {
	w.t.Helper()
	var out bytes.Buffer
	if err := w.reader().Copy(w.t.Context(), place, options, &out); err != nil {
		w.t.Fatal(err)
	}
	return out.String()
}

func number(n int64) *int64 { return &n }

// What each option shows of a log of three files, one of which is compressed
// (spec/runtime.md 27.3, 27.4).
func TestOptions(t *testing.T) {
	w := newLog(t)
	w.entry("stdout", "F", "one")
	w.entry("stderr", "F", "two")
	w.mustRotate()
	w.entry("stdout", "P", "thr")
	w.entry("stderr", "F", "within")
	w.mustRotate() // compresses the first
	w.entry("stdout", "F", "ee")
	four := w.now.Add(time.Millisecond)
	w.entry("stdout", "F", "four")
	w.entry("stderr", "P", "five, unfinished")
	stamp := func(n int) string {
		return time.Date(2026, 1, 2, 3, 4, 5, 6+n*1e6, time.UTC).Format(timeFormat) + " "
	}
	for _, tc := range []struct {
		name    string
		options Options
		want    string
	}{
		{"all", Options{}, "one\ntwo\nwithin\nthree\nfour\nfive, unfinished"},
		{
			"timestamps",
			Options{Timestamps: true},
			stamp(1) + "one\n" + stamp(2) + "two\n" + stamp(4) + "within\n" + stamp(3) + "three\n" + stamp(6) + "four\n" + stamp(7) + "five, unfinished",
		},
		{"stdout", Options{Stream: Stdout}, "one\nthree\nfour\n"},
		{"stderr", Options{Stream: Stderr}, "two\nwithin\nfive, unfinished"},
		{"since", Options{Since: four}, "four\nfive, unfinished"},
		{"tail 0", Options{Tail: number(0)}, ""},
		{"tail 1", Options{Tail: number(1)}, "five, unfinished"},
		{"tail 2", Options{Tail: number(2)}, "four\nfive, unfinished"},
		{"tail 3", Options{Tail: number(3)}, "ee\nfour\nfive, unfinished"},
		{"tail 5, in the compressed file", Options{Tail: number(5)}, "two\nwithin\nthree\nfour\nfive, unfinished"},
		{"tail 6", Options{Tail: number(6)}, "one\ntwo\nwithin\nthree\nfour\nfive, unfinished"},
		{"tail 100", Options{Tail: number(100)}, "one\ntwo\nwithin\nthree\nfour\nfive, unfinished"},
		{"tail of a stream", Options{Tail: number(2), Stream: Stdout}, "three\nfour\n"},
		{"tail of a stream, in the compressed file", Options{Tail: number(3), Stream: Stderr}, "two\nwithin\nfive, unfinished"},
		{"tail and since", Options{Tail: number(5), Since: four}, "four\nfive, unfinished"},
		{"limit", Options{LimitBytes: number(5)}, "one\nt"},
		{"limit above all", Options{LimitBytes: number(1000)}, "one\ntwo\nwithin\nthree\nfour\nfive, unfinished"},
		{"limit counts timestamps", Options{LimitBytes: number(4), Timestamps: true}, "2026"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := w.show(tc.options); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// Bad options are refused with their names, all at once.
func TestBadOptions(t *testing.T) {
	err := (&Options{Tail: number(-1), LimitBytes: number(0), Stream: "both"}).Check()
	for _, name := range []string{"tailLines", "limitBytes", "stream"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

// What is no entry is left out, a log that is not there is an error, and a link is not followed.
func TestStrangeFiles(t *testing.T) {
	w := newLog(t)
	w.raw("garbage\n\n\x00\xff\n")
	w.entry("stdout", "F", "good")
	w.raw(w.now.Format(timeFormat) + " stdout F cut off")
	if got := w.show(Options{}); got != "good\ncut off" {
		t.Errorf("%q", got)
	}
	missing := place
	missing.File = "1.log"
	if err := w.reader().Copy(t.Context(), missing, Options{}, io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: %v", err)
	}
	if err := w.dir.Symlink("/etc/passwd", "1.log"); err != nil {
		t.Fatal(err)
	}
	if err := w.reader().Copy(t.Context(), missing, Options{}, io.Discard); err == nil {
		t.Error("a link was read")
	}
	for _, name := range []string{"..", "a/b", ""} {
		if err := w.reader().Copy(t.Context(), Log{Pod: name, Container: "app", File: "0.log"}, Options{}, io.Discard); err == nil {
			t.Errorf("folder %q was read", name)
		}
	}
	// A rotated file that cannot be read costs its own lines alone, and is named.
	if err := os.WriteFile(filepath.Join(w.root, place.Pod, place.Container, "0.log.20250101-000000.gz"), []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, options := range []Options{{}, {Tail: number(100)}} {
		var out bytes.Buffer
		err := w.reader().Copy(t.Context(), place, options, &out)
		if out.String() != "good\ncut off" || err == nil || !strings.Contains(err.Error(), "0.log.20250101-000000.gz") {
			t.Errorf("%q, %v", out.String(), err)
		}
	}
}

// counting counts bytes and remembers the largest piece.
type counting struct{ bytes, largest int }

func (c *counting) Write(p []byte) (int, error) {
	c.bytes += len(p)
	c.largest = max(c.largest, len(p))
	return len(p), nil
}

// A line of many megabytes, as one entry or as parts, takes bounded memory and arrives whole
// (spec/runtime.md 27.6).
func TestLineOfAnyLength(t *testing.T) {
	const size = 64 << 20
	w := newLog(t)
	block := strings.Repeat("x", 1<<20)
	w.raw(w.now.Format(timeFormat) + " stdout F ")
	for range size / len(block) {
		w.raw(block)
	}
	w.raw("\n")
	for range 4 << 10 {
		w.entry("stdout", "P", block[:16<<10])
	}
	w.entry("stdout", "F", "")
	for _, options := range []Options{{}, {Tail: number(2)}} {
		var out counting
		allocated := testing.AllocsPerRun(1, func() {
			out = counting{}
			if err := w.reader().Copy(t.Context(), place, options, &out); err != nil {
				t.Error(err)
			}
		})
		if out.bytes != 2*size+2 || out.largest > 1<<20 || allocated > 20000 {
			t.Errorf("%d bytes in pieces of up to %d, %v allocations; want %d", out.bytes, out.largest, allocated, 2*size+2)
		}
	}
	if got := w.show(Options{Tail: number(1), LimitBytes: number(3)}); got != "xxx" {
		t.Errorf("the begin of the last line: %q", got)
	}
}

// A line too long to be held that the other stream interrupts continues as a line of its own.
func TestLongLineIsNotMixed(t *testing.T) {
	w := newLog(t)
	long := strings.Repeat("x", maxHeld)
	w.entry("stdout", "P", long)
	w.entry("stderr", "F", "other")
	w.entry("stdout", "F", "end")
	if got := w.show(Options{}); got != long+"\nother\nend\n" {
		t.Errorf("%d bytes, end %q", len(got), got[max(0, len(got)-20):])
	}
}

// What continues a line of which the client has a part is shown at the next look, also if a line of the other stream
// came in between and the container never ends it. It then has the time at which it was written.
func TestRestOfAnInterruptedLine(t *testing.T) {
	for _, timestamps := range []bool{false, true} {
		w := newLog(t)
		synctest.Test(t, func(t *testing.T) {
			stamp := func() string {
				if !timestamps {
					return ""
				}
				return w.now.Format(timeFormat) + " "
			}
			f := w.follow(t.Context(), Options{Timestamps: timestamps}, nil)
			<-time.After(lookPeriod / 2) // from here on never at the time of a look
			var want string
			for _, end := range []string{"P", "F"} {
				w.entry("stdout", "P", "one ")
				want += stamp() + "one \n"
				<-time.After(time.Second) // the client has it
				w.entry("stdout", "P", "two ")
				rest := stamp() + "two "
				w.entry("stderr", "F", "other")
				want += stamp() + "other\n" + rest
				if end == "F" {
					w.entry("stdout", end, "three")
					want += "three\n"
				}
				<-time.After(time.Second)
				if got := f.text(); got != want {
					t.Errorf("shown %q, want %q", got, want)
				}
				if end == "P" {
					w.entry("stdout", "F", "end")
					want += "end\n"
				}
			}
			f.ended.Store(true)
			if <-f.done; f.err != nil || f.text() != want {
				t.Errorf("in the end %q, %v, want %q", f.text(), f.err, want)
			}
		})
	}
}

// following is a reading in a goroutine.
type following struct {
	mu    sync.Mutex
	out   bytes.Buffer
	slow  func()
	ended atomic.Bool
	done  chan struct{}
	err   error
}

func (f *following) Write(p []byte) (int, error) {
	if f.slow != nil {
		f.slow()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

func (f *following) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.String()
}

func (w *written) follow(ctx context.Context, options Options, slow func()) *following {
	f := &following{slow: slow, done: make(chan struct{})}
	options.Follow, options.Ended = true, f.ended.Load
	reader := w.reader()
	go func() {
		defer close(f.done)
		f.err = reader.Copy(ctx, place, options, f)
	}()
	return f
}

// Lines are shown within a look, a container's end ends the reading within a second with all
// its lines, and so does the client's end (spec/runtime.md 27.5).
func TestFollowEnds(t *testing.T) {
	w := newLog(t)
	synctest.Test(t, func(t *testing.T) {
		w.entry("stdout", "F", "one")
		f := w.follow(t.Context(), Options{Tail: number(1)}, nil)
		<-time.After(lookPeriod / 2)
		w.entry("stdout", "F", "two")
		<-time.After(lookPeriod)
		if got := f.text(); got != "one\ntwo\n" {
			t.Errorf("shown so far: %q", got)
		}
		begin := time.Now()
		w.entry("stdout", "P", "thr")
		f.ended.Store(true)
		<-f.done
		if f.err != nil || f.text() != "one\ntwo\nthr" || time.Since(begin) > time.Second {
			t.Errorf("%q, %v after %v", f.text(), f.err, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		f = w.follow(ctx, Options{}, nil)
		<-time.After(time.Hour)
		cancel()
		<-f.done
		if !errors.Is(f.err, context.Canceled) {
			t.Errorf("cancelled: %v", f.err)
		}
	})
}

// A log that is removed while it is followed stays readable; one that is not there yet is
// waited for.
func TestFollowWithoutFile(t *testing.T) {
	w := newLog(t)
	synctest.Test(t, func(t *testing.T) {
		f := w.follow(t.Context(), Options{}, nil)
		<-time.After(time.Second)
		if err := w.dir.RemoveAll("."); err != nil {
			_ = w.dir.Remove(place.File)
		}
		w.entry("stdout", "F", "after the removal")
		f.ended.Store(true)
		<-f.done
		if f.err != nil || f.text() != "after the removal\n" {
			t.Errorf("%q, %v", f.text(), f.err)
		}
		f = w.follow(t.Context(), Options{}, nil)
		<-time.After(time.Second)
		w.reopen()
		w.entry("stdout", "F", "late")
		<-time.After(time.Second)
		f.ended.Store(true)
		<-f.done
		if f.err != nil || f.text() != "late\n" {
			t.Errorf("%q, %v", f.text(), f.err)
		}
	})
}

// Files that the rotation removed before a slow client came to them are left out; what follows is
// shown once and in order.
func TestSlowClientMissesWholeFilesOnly(t *testing.T) {
	w := newLog(t)
	synctest.Test(t, func(t *testing.T) {
		w.entry("stdout", "F", "0")
		f := w.follow(t.Context(), Options{}, func() { <-time.After(time.Hour) })
		<-time.After(time.Minute) // the client has the first line and hangs
		for i := 1; i < 10; i++ {
			r := logrotate.Rotation{
				Dir: w.dir, Log: place.File, MaxFiles: 4, Now: w.now,
				Reopen: func(context.Context) error { w.reopen(); return nil },
			}
			if err := r.Run(t.Context()); err != nil {
				t.Error(err)
			}
			w.entry("stdout", "F", strconv.Itoa(i))
		}
		f.ended.Store(true)
		<-f.done
		if f.err != nil || f.text() != "0\n6\n7\n8\n9\n" {
			t.Errorf("%q, %v", f.text(), f.err)
		}
	})
}

// A log that is not followed ends, however fast the container writes and however slow the client is: it shows what there
// was when the reading began.
func TestUnfollowedLogEnds(t *testing.T) {
	for _, tail := range []*int64{nil, number(2)} {
		w := newLog(t)
		long := strings.Repeat("x", 40<<10)
		w.entry("stdout", "F", "one "+long)
		w.mustRotate()
		w.entry("stdout", "F", "two "+long)
		var shown bytes.Buffer
		pieces := 0
		err := w.reader().Copy(t.Context(), place, Options{Tail: tail}, writing(func(p []byte) (int, error) {
			if pieces++; pieces > 100 {
				return 0, errors.New("the log does not end")
			}
			w.mustRotate()
			w.entry("stdout", "F", "later "+long)
			return shown.Write(p)
		}))
		if text := shown.String(); err != nil || !strings.HasPrefix(text, "one x") || !strings.Contains(text, "two x") || strings.Contains(text, "later") {
			t.Errorf("%d bytes, %d later lines, %v", len(text), strings.Count(text, "later"), err)
		}
	}
}

// writing is a client.
type writing func(p []byte) (int, error)

func (w writing) Write(p []byte) (int, error) { return w(p) }

// A reader that begins between the two steps of a rotation reads the file under its new name; if
// the rotation then fails, the file is not read again under the old one.
func TestRotationFailsUnderReader(t *testing.T) {
	w := newLog(t)
	synctest.Test(t, func(t *testing.T) {
		w.entry("stdout", "F", "one")
		var f *following
		err := w.rotate(func(step string) error {
			if step == "reopen" {
				f = w.follow(t.Context(), Options{}, nil)
				<-time.After(time.Second)
			}
			return nil
		}, func() error { return errors.New("the runtime does not answer") })
		if err == nil || f == nil {
			t.Fatal("the rotation did not fail")
		}
		<-time.After(time.Second)
		w.entry("stdout", "F", "two")
		<-time.After(time.Second)
		w.mustRotate()
		w.entry("stdout", "F", "three")
		<-time.After(time.Second)
		f.ended.Store(true)
		<-f.done
		if f.err != nil || f.text() != "one\ntwo\nthree\n" {
			t.Errorf("%q, %v", f.text(), f.err)
		}
	})
}

// A rotation between the listing of the files and the opening of the current one does not hide
// the file that it made.
func TestRotationBeforeOpening(t *testing.T) {
	w := newLog(t)
	w.entry("stdout", "F", "one")
	c := &copying{folder: folder{dir: w.dir, log: place.File}}
	w.mustRotate()
	if next, again, err := c.current(); next != nil || !again || err != nil {
		t.Errorf("%v, %v, %v: want another look", next, again, err)
	}
	next, err := c.following()
	if err != nil || next == nil || next.base == "" {
		t.Fatalf("%v, %v: want the rotated file", next, err)
	}
	next.close()
}

// Whatever the log and the reader do meanwhile, every line is shown once and in order
// (KH3; spec/runtime.md 27.4): rotations at every moment, failed ones, compression, runtimes that write to
// the old file for a while, slow clients, an agent whose clock is set.
func TestNothingLostOrDoubledAcrossRotations(t *testing.T) {
	for seed := range uint64(150) {
		w := newLog(t)
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			pause := func(r *rand.Rand) { <-time.After(time.Duration(r.IntN(700)) * time.Millisecond) }
			next := 0
			var whole []bool // by mark
			write := func() {
				for range random.IntN(4) {
					tag := "F"
					if random.IntN(4) == 0 {
						tag = "P"
					}
					w.entry("stdout", tag, fmt.Sprintf("<%d>", next))
					whole = append(whole, tag == "F")
					next++
				}
			}
			// lastLines returns where the last n lines begin.
			lastLines := func(n int) (begin int) {
				for begin = next; begin > 0; begin-- {
					if whole[begin-1] || begin == next {
						if n--; n < 0 {
							break
						}
					}
				}
				return begin
			}
			var readers []*following
			var from []int // what each reader must show at least
			read := func() {
				if len(readers) == 4 {
					return
				}
				options := Options{Timestamps: random.IntN(2) == 0}
				begin := 0
				if random.IntN(2) == 0 {
					n := random.IntN(5)
					if next > 0 && !whole[next-1] {
						n++ // of an unfinished line, tail 0 may show what follows or not
					}
					options.Tail, begin = number(int64(n)), lastLines(n)
				}
				var slow func()
				if random.IntN(2) == 0 {
					own := rand.New(rand.NewPCG(seed, uint64(2+len(readers))))
					slow = func() { pause(own) }
				}
				readers, from = append(readers, w.follow(t.Context(), options, slow)), append(from, begin)
				synctest.Wait()
			}
			for range 60 {
				switch random.IntN(5) {
				case 0, 1:
					write()
				case 2:
					pause(random)
				case 3:
					read()
				case 4:
					fail := random.IntN(4) == 0
					w.skew = time.Duration(random.IntN(7200)-3600) * time.Second
					_ = w.rotate(func(string) error {
						if random.IntN(2) == 0 {
							pause(random)
						}
						if random.IntN(20) == 0 {
							read()
						}
						return nil
					}, func() error {
						write()
						if fail {
							return errors.New("the runtime does not answer")
						}
						old := w.file
						w.file = nil
						w.reopen()
						fresh := w.file
						if random.IntN(3) == 0 {
							pause(random)
							w.file = old
							write()
						}
						w.file = fresh
						return old.Close()
					})
				}
			}
			write()
			for i, f := range readers {
				f.ended.Store(true)
				<-f.done
				if f.err != nil {
					t.Errorf("seed %d, reader %d: %v", seed, i, f.err)
				}
				compare(t, seed, f.text(), from[i], next)
			}
			var out bytes.Buffer
			if err := w.reader().Copy(t.Context(), place, Options{}, &out); err != nil {
				t.Error(err)
			}
			compare(t, seed, out.String(), 0, next)
		})
	}
}

// compare wants the marks from begin to end once each and in order.
func compare(t *testing.T, seed uint64, text string, begin, end int) {
	t.Helper()
	var got []int
	for part := range strings.SplitSeq(text, "<") {
		if mark, _, ok := strings.Cut(part, ">"); ok {
			n, err := strconv.Atoi(mark)
			if err != nil {
				t.Fatalf("seed %d: %q", seed, part)
			}
			got = append(got, n)
		}
	}
	var want []int
	for n := begin; n < end; n++ {
		want = append(want, n)
	}
	if !slices.Equal(got, want) {
		t.Errorf("seed %d: shown %v, want %d to %d", seed, got, begin, end-1)
	}
}

// With inotify a line is shown when it is written, without a look (the clock stands still).
func TestInotifyWakes(t *testing.T) {
	w := newLog(t)
	changes, stop := watch(filepath.Join(w.root, place.Pod, place.Container))
	defer stop()
	if changes == nil {
		t.Fatal("no inotify")
	}
	w.entry("stdout", "F", "one")
	<-changes
	if changes, stop := watch(filepath.Join(w.root, "missing")); changes != nil {
		t.Error("a folder that is not there is watched")
	} else {
		stop()
	}
}

// TestSameProblemIsToldOnce: a followed file that cannot be read fails at every look.
func TestSameProblemIsToldOnce(t *testing.T) {
	c := &copying{}
	for i := range 10 * maxLooks {
		c.problem(fmt.Errorf("read 0.log: %w", syscall.EIO))
		c.problem(fmt.Errorf("read 0.log.%d: %w", i%3, syscall.EIO))
	}
	if len(c.problems) != 4 {
		t.Errorf("%d problems, want one for each of 4 files: %v", len(c.problems), errors.Join(c.problems...))
	}
}
