package userns

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Records keeps one small record per pod. A record that was written survives a
// crash of the machine.
type Records interface {
	// Pods lists the pods that may have a record.
	Pods() ([]types.UID, error)
	// Read returns a pod's record; fs.ErrNotExist if it has none.
	Read(uid types.UID) ([]byte, error)
	Write(uid types.UID, record []byte) error
	// Remove removes a record; it succeeds if there is none.
	Remove(uid types.UID) error
}

// Options describe the available IDs: Pods ranges of Length from First on. First is
// a multiple of Length, and all IDs fit into 32 bits.
type Options struct {
	First, Length uint32
	Pods          int
}

// Pool hands out ranges. It is safe for concurrent use; a pod's own calls must
// come one after another.
type Pool struct {
	records Records
	options Options

	// mu guards what follows. It is not held over a read or write of records.
	mu   sync.Mutex
	used map[types.UID]Mapping
	// taken has the owner of each range of the pool.
	taken map[int]types.UID
	// broken has the pods whose record cannot be used, and why.
	broken map[types.UID]error
	// next is where the search for a free range begins, so that the range freed last
	// is reused last. After Load it is behind the highest range in use.
	next int
}

// Open returns a pool and loads it.
func Open(records Records, o Options) (*Pool, error) {
	p := &Pool{records: records, options: o}
	return p, p.Load()
}

// Load reads the records of all pods, in place of what was read before; no range may be given out or
// freed meanwhile. If a record cannot be used, its pod has no mapping, and, because it is unknown which
// IDs it holds, no pod gets a new one until the record can be used or its pod is gone: it is read again
// before that is refused.
func (p *Pool) Load() error {
	read, err := p.read()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used, p.taken, p.broken, p.next = read.used, read.taken, read.broken, read.next
	return nil
}

// read returns a pool with what is on record now.
func (p *Pool) read() (*Pool, error) {
	out := &Pool{options: p.options, used: map[types.UID]Mapping{}, taken: map[int]types.UID{}, broken: map[types.UID]error{}}
	uids, err := p.records.Pods()
	if err != nil {
		return nil, fmt.Errorf("user namespaces: %w", err)
	}
	slices.Sort(uids)
	for _, uid := range uids {
		m, err := p.recorded(uid)
		out.found(uid, m, err)
	}
	for n := range out.taken {
		out.next = max(out.next, n+1)
	}
	return out, nil
}

// recorded returns the mapping on the pod's record; fs.ErrNotExist if it has none.
func (p *Pool) recorded(uid types.UID) (Mapping, error) {
	text, err := p.records.Read(uid)
	if err != nil {
		return Mapping{}, err
	}
	return decode(text)
}

// found notes what was read of a pod that has no mapping.
func (p *Pool) found(uid types.UID, m Mapping, err error) {
	if err == nil {
		err = p.overlap(uid, m)
	}
	delete(p.broken, uid)
	switch {
	case err == nil:
		p.take(uid, m)
	case !errors.Is(err, fs.ErrNotExist):
		p.broken[uid] = err
	}
}

// readAgain reads the records again that could not be used: what was wrong may be over.
func (p *Pool) readAgain() {
	p.mu.Lock()
	uids := slices.Sorted(maps.Keys(p.broken))
	p.mu.Unlock()
	for _, uid := range uids {
		m, err := p.recorded(uid)
		p.mu.Lock()
		if p.broken[uid] != nil { // its pod is not gone, and no other call was faster
			p.found(uid, m, err)
		}
		p.mu.Unlock()
	}
}

// overlap reports which pod already has some of the IDs.
func (p *Pool) overlap(uid types.UID, m Mapping) error {
	for other, o := range p.used {
		if other != uid && int64(m.HostID) < o.end() && int64(o.HostID) < m.end() {
			return fmt.Errorf("its IDs %d to %d are also pod %s's", m.HostID, m.end()-1, other)
		}
	}
	return nil
}

// Get returns the pod's mapping, if it has one.
func (p *Pool) Get(uid types.UID) (Mapping, bool, error) {
	m, ok, err := p.get(uid)
	if err != nil {
		p.readAgain()
		return p.get(uid)
	}
	return m, ok, nil
}

func (p *Pool) get(uid types.UID) (Mapping, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.broken[uid]; err != nil {
		return Mapping{}, false, fmt.Errorf("the record of the pod's user namespace cannot be used: %w", err)
	}
	m, ok := p.used[uid]
	return m, ok, nil
}

// Acquire returns the pod's mapping, a new one if it has none. It returns once
// the mapping is on disk.
func (p *Pool) Acquire(uid types.UID) (Mapping, error) {
	m, fresh, err := p.reserve(uid)
	if err != nil || !fresh {
		return m, err
	}
	text, err := m.encode()
	if err == nil {
		err = p.records.Write(uid, text)
	}
	if err != nil {
		p.mu.Lock()
		p.drop(uid)
		p.mu.Unlock()
		return Mapping{}, fmt.Errorf("record the pod's user namespace: %w", err)
	}
	return m, nil
}

// reserve finds a range and marks it as taken.
func (p *Pool) reserve(uid types.UID) (m Mapping, fresh bool, err error) {
	m, ok, err := p.Get(uid)
	if err != nil || ok {
		return m, false, err
	}
	p.readAgain()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.broken) > 0 {
		return Mapping{}, false, fmt.Errorf("no user IDs are given out while the records of these pods cannot be read: %v",
			slices.Sorted(maps.Keys(p.broken)))
	}
	for i := range p.options.Pods {
		n := (p.next + i) % p.options.Pods
		if _, taken := p.taken[n]; taken {
			continue
		}
		p.next = n + 1
		m = Mapping{HostID: p.options.First + uint32(n)*p.options.Length, Length: p.options.Length}
		p.take(uid, m)
		return m, true, nil
	}
	return Mapping{}, false, fmt.Errorf("all %d ranges of user IDs are in use", p.options.Pods)
}

// Release frees the pod's range once its record is gone. It succeeds if the pod has
// none.
func (p *Pool) Release(uid types.UID) error {
	p.mu.Lock()
	_, used := p.used[uid]
	known := used || p.broken[uid] != nil
	p.mu.Unlock()
	if !known {
		return nil
	}
	if err := p.records.Remove(uid); err != nil {
		return fmt.Errorf("free the pod's user IDs: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(uid)
	return nil
}

// Holders returns the pods that have a range, sorted, including pods whose record
// cannot be used.
func (p *Pool) Holders() []types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.AppendSeq(slices.Collect(maps.Keys(p.used)), maps.Keys(p.broken))
	slices.Sort(out)
	return out
}

// take marks a mapping as the pod's, and every range it touches. A record may be
// from a time when the pool had other ranges.
func (p *Pool) take(uid types.UID, m Mapping) {
	p.used[uid] = m
	for _, n := range p.touched(m) {
		p.taken[n] = uid
	}
}

func (p *Pool) drop(uid types.UID) {
	for _, n := range p.touched(p.used[uid]) {
		if p.taken[n] == uid {
			delete(p.taken, n)
		}
	}
	delete(p.used, uid)
	delete(p.broken, uid)
}

// touched lists the ranges of the pool that a mapping overlaps.
func (p *Pool) touched(m Mapping) []int {
	if m.Length == 0 {
		return nil
	}
	first, length := int64(p.options.First), int64(p.options.Length)
	from := max((int64(m.HostID)-first)/length, 0)
	to := min((m.end()-1-first)/length, int64(p.options.Pods)-1)
	var out []int
	for n := from; n <= to && m.end() > first; n++ {
		out = append(out, int(n))
	}
	return out
}
