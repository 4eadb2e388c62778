package userns_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime/pods/internal/userns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk keeps records in memory.
type disk struct {
	mu      sync.Mutex
	records map[types.UID]string
	err     error
	// unread is a pod whose record cannot be read.
	unread types.UID
}

func (d *disk) Pods() ([]types.UID, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(slices.Collect(maps.Keys(d.records)), "without-record"), d.err
}

func (d *disk) Read(uid types.UID) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, ok := d.records[uid]
	if uid == d.unread {
		return nil, errors.New("input/output error")
	}
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func (d *disk) Write(uid types.UID, record []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.records[uid] = string(record)
	}
	return d.err
}

func (d *disk) Remove(uid types.UID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		delete(d.records, uid)
	}
	return d.err
}

func open(t interface {
	Helper()
	Fatal(...any)
}, d *disk, pods int,
) *userns.Pool {
	t.Helper()
	p, err := userns.Open(d, userns.Options{First: 65536, Length: 65536, Pods: pods})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// spec/runtime.md 3.7: one range per pod, kept over a restart, free once the pod
// is finished.
func TestPodKeepsItsRangeOverARestart(t *testing.T) {
	d := &disk{records: map[types.UID]string{}}
	p := open(t, d, 2)
	a, err := p.Acquire("a")
	if err != nil || a != (userns.Mapping{HostID: 65536, Length: 65536}) {
		t.Fatalf("3.7: %v, err %v", a, err)
	}
	if want := `{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}`; d.records["a"] != want {
		t.Errorf("3.7: record %s, want %s", d.records["a"], want)
	}
	if again, err := p.Acquire("a"); err != nil || again != a {
		t.Errorf("3.7: a second time %v, err %v", again, err)
	}
	b, err := p.Acquire("b")
	if err != nil || b.HostID != 131072 {
		t.Errorf("3.7: b has %v, err %v", b, err)
	}
	if _, err := p.Acquire("c"); err == nil {
		t.Error("3.7: a third range of two")
	}

	p = open(t, d, 2) // the agent restarts
	if got, ok, err := p.Get("b"); got != b || !ok || err != nil {
		t.Errorf("3.7: after a restart %v %v %v", got, ok, err)
	}
	if _, err := p.Acquire("c"); err == nil {
		t.Error("3.7: a restart freed a range")
	}
	if err := errors.Join(p.Release("a"), p.Release("a"), p.Release("never seen")); err != nil {
		t.Error(err)
	}
	if got, ok, err := p.Get("a"); ok || err != nil {
		t.Errorf("3.7: freed, and still %v, err %v", got, err)
	}
	if c, err := p.Acquire("c"); err != nil || c != a {
		t.Errorf("3.7: c has %v, err %v, want what a had", c, err)
	}
}

// spec/runtime.md 3.7: what another agent has given out and freed is known once the records are read again.
func TestLoadReadsWhatAnotherAgentDid(t *testing.T) {
	d := &disk{records: map[types.UID]string{}}
	other := open(t, d, 3)
	if _, err := other.Acquire("gone"); err != nil {
		t.Fatal(err)
	}
	p := open(t, d, 3)
	kept, err := other.Acquire("kept")
	if err := errors.Join(err, other.Release("gone"), p.Load()); err != nil {
		t.Fatal(err)
	}
	if got := p.Holders(); !slices.Equal(got, []types.UID{"kept"}) {
		t.Errorf("3.7: %v have ranges", got)
	}
	if m, ok, err := p.Get("kept"); m != kept || !ok || err != nil {
		t.Errorf("3.7: kept has %v %v %v, want %v", m, ok, err, kept)
	}
	d.err = errors.New("disk gone")
	if err := p.Load(); !errors.Is(err, d.err) {
		t.Errorf("3.7: loaded: %v", err)
	}
	d.err = nil
	if m, err := p.Acquire("new"); err != nil || m == kept {
		t.Errorf("3.7: new has %v, err %v, and kept %v", m, err, kept)
	}
}

// The range freed last is reused last: files that a pod left behind must not belong
// to the next pod at once.
func TestPoolGoesRound(t *testing.T) {
	p := open(t, &disk{records: map[types.UID]string{}}, 3)
	var got []uint32
	for i := range 6 {
		uid := types.UID(fmt.Sprint(i))
		m, err := p.Acquire(uid)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.HostID/65536)
		if err := p.Release(uid); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint32{1, 2, 3, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("3.7: %v, want %v", got, want)
	}
}

// After a restart of the agent the search continues behind the highest range in use: the ranges before it may have been
// freed a moment ago.
func TestPoolGoesRoundAfterARestart(t *testing.T) {
	for _, tc := range []struct {
		name     string
		acquired int
		freed    []types.UID
		want     []uint32
	}{
		{"the first is freed", 2, []types.UID{"0"}, []uint32{3, 4, 1}},
		{"the last is in use", 4, []types.UID{"1", "2"}, []uint32{2, 3}},
		{"nothing is in use", 2, []types.UID{"0", "1"}, []uint32{1, 2, 3, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &disk{records: map[types.UID]string{}}
			p := open(t, d, 4)
			for i := range tc.acquired {
				if _, err := p.Acquire(types.UID(fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
			}
			for _, uid := range tc.freed {
				if err := p.Release(uid); err != nil {
					t.Fatal(err)
				}
			}
			p = open(t, d, 4)
			var got []uint32
			for i := range tc.want {
				m, err := p.Acquire(types.UID(fmt.Sprint("new-", i)))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, m.HostID/65536)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("3.7: %v, want %v", got, tc.want)
			}
		})
	}
}

// spec/runtime.md 3.7: records are validated when they are read again.
func TestBadRecords(t *testing.T) {
	entries := func(s string) string { return `{"uidMappings":[` + s + `],"gidMappings":[` + s + `]}` }
	for name, text := range map[string]string{
		"no JSON":            `{"uidMapp`,
		"empty":              ``,
		"nothing in it":      `{}`,
		"two":                entries(`{"hostId":65536,"length":65536},{"hostId":131072,"length":65536}`),
		"different":          `{"uidMappings":[{"hostId":65536,"length":65536}],"gidMappings":[{"hostId":131072,"length":65536}]}`,
		"container ID":       entries(`{"hostId":65536,"containerId":1,"length":65536}`),
		"the node's own IDs": entries(`{"hostId":0,"length":65536}`),
		"odd begin":          entries(`{"hostId":65537,"length":65536}`),
		"odd length":         entries(`{"hostId":65536,"length":1000}`),
		"no length":          entries(`{"hostId":65536,"length":0}`),
		"too long":           entries(`{"hostId":4294901760,"length":65536}`),
		"negative":           entries(`{"hostId":-65536,"length":65536}`),
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{records: map[types.UID]string{"bad": text, "good": entries(`{"hostId":131072,"containerId":0,"length":65536}`)}}
			p := open(t, d, 5)
			if m, ok, err := p.Get("bad"); err == nil {
				t.Errorf("3.7: taken as %v %v", m, ok)
			}
			if m, ok, err := p.Get("good"); !ok || err != nil || m.HostID != 131072 {
				t.Errorf("3.7: the neighbour has %v, err %v", m, err)
			}
			if m, err := p.Acquire("good"); err != nil || m.HostID != 131072 {
				t.Errorf("3.7: the neighbour gets %v, err %v", m, err)
			}
			if _, err := p.Acquire("new"); err == nil || !strings.Contains(err.Error(), "bad") {
				t.Errorf("3.7: IDs are given out that may be in use: %v", err)
			}
			if err := p.Release("bad"); err != nil {
				t.Fatal(err)
			}
			if m, err := p.Acquire("new"); err != nil || m.HostID != 3*65536 {
				t.Errorf("3.7: after the bad pod is gone %v, err %v", m, err)
			}
		})
	}
}

// spec/runtime.md 3.7: a record that could not be read once counts as soon as it can be.
func TestUnreadRecordIsReadAgain(t *testing.T) {
	for name, calls := range map[string][]types.UID{
		"its pod asks first":     {"unread", "new"},
		"another pod asks first": {"new", "unread"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{records: map[types.UID]string{}}
			before, err := open(t, d, 3).Acquire("unread")
			if err != nil {
				t.Fatal(err)
			}
			d.unread = "unread"
			p := open(t, d, 3)
			for _, uid := range calls {
				if m, err := p.Acquire(uid); err == nil {
					t.Errorf("3.7: %s gets %v while a record cannot be read", uid, m)
				}
			}
			d.unread = ""
			want := map[types.UID]uint32{"unread": before.HostID, "new": before.HostID + before.Length}
			for _, uid := range calls {
				if m, err := p.Acquire(uid); err != nil || m.HostID != want[uid] {
					t.Errorf("3.7: %s gets %v, err %v, want %d", uid, m, err, want[uid])
				}
			}
		})
	}
	d := &disk{records: map[types.UID]string{"damaged": "?"}}
	p := open(t, d, 1)
	delete(d.records, "damaged")
	if _, ok, err := p.Get("damaged"); ok || err != nil {
		t.Errorf("3.7: a record that was removed: %v, err %v", ok, err)
	}
}

// Two records for the same IDs: one pod keeps them.
func TestSharedRecord(t *testing.T) {
	same := `{"uidMappings":[{"hostId":65536,"containerId":0,"length":131072}],"gidMappings":[{"hostId":65536,"containerId":0,"length":131072}]}`
	p := open(t, &disk{records: map[types.UID]string{"a": same, "b": strings.ReplaceAll(same, "65536", "131072")}}, 5)
	_, okA, errA := p.Get("a")
	_, okB, errB := p.Get("b")
	if !okA || errA != nil || okB || errB == nil {
		t.Errorf("3.7: a %v %v, b %v %v", okA, errA, okB, errB)
	}
	if err := p.Release("b"); err != nil {
		t.Fatal(err)
	}
	// a's record is twice as long as ranges are now: both halves are taken.
	if m, err := p.Acquire("c"); err != nil || m.HostID != 3*65536 {
		t.Errorf("3.7: c gets %v, err %v", m, err)
	}
}

// What cannot be written was not given; what cannot be removed stays taken.
func TestDiskErrors(t *testing.T) {
	full := errors.New("disk full")
	d := &disk{records: map[types.UID]string{}}
	p := open(t, d, 1)
	d.err = full
	if _, err := p.Acquire("a"); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	d.err = nil
	if _, err := p.Acquire("b"); err != nil {
		t.Errorf("the range of the failed one is lost: %v", err)
	}
	d.err = full
	if err := p.Release("b"); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	d.err = nil
	if _, err := p.Acquire("c"); err == nil {
		t.Error("the range of b, whose record is there, was given away")
	}
	d.err = full
	if _, err := userns.Open(d, userns.Options{First: 65536, Length: 65536, Pods: 1}); !errors.Is(err, full) {
		t.Errorf("3.7: opened without a list of pods: %v", err)
	}
}

// Whatever is acquired, released and lost in restarts: ranges never overlap and
// stay in the pool, and a pod keeps its own.
func TestPoolHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pods = 5
		d := &disk{records: map[types.UID]string{}}
		p := open(t, d, pods)
		have := map[types.UID]userns.Mapping{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			uid := types.UID(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "pod"))
			switch rapid.SampledFrom([]string{"acquire", "acquire", "release", "restart"}).Draw(t, "step") {
			case "acquire":
				m, err := p.Acquire(uid)
				if old, ok := have[uid]; ok && (err != nil || m != old) {
					t.Fatalf("3.7: %s had %v, has %v, err %v", uid, old, m, err)
				}
				if err != nil {
					if len(have) < pods {
						t.Fatalf("3.7: %d of %d in use: %v", len(have), pods, err)
					}
					continue
				}
				have[uid] = m
			case "release":
				if err := p.Release(uid); err != nil {
					t.Fatal(err)
				}
				delete(have, uid)
			case "restart":
				p = open(t, d, pods)
			}
			seen := map[uint32]types.UID{}
			for uid, m := range have {
				if m.Length != 65536 || m.HostID%65536 != 0 || m.HostID < 65536 || m.HostID > pods*65536 || seen[m.HostID] != "" {
					t.Fatalf("3.7: %s has %v, %v", uid, m, have)
				}
				seen[m.HostID] = uid
			}
		}
	})
}

// Pods start at the same time.
func TestConcurrentPodsGetDifferentRanges(t *testing.T) {
	p := open(t, &disk{records: map[types.UID]string{}}, 50)
	var wait sync.WaitGroup
	got := make([]userns.Mapping, 50)
	for i := range got {
		wait.Go(func() {
			var err error
			if got[i], err = p.Acquire(types.UID(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	slices.SortFunc(got, func(a, b userns.Mapping) int { return int(a.HostID) - int(b.HostID) })
	if len(slices.Compact(got)) != 50 {
		t.Error("3.7: two pods share a range")
	}
}
