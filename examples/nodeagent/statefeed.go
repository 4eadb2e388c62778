package main

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"
)

// stateFeed builds the state for all open pages, once per period, and not at all while no page is open. A
// reader gets the newest state when it is ready for it; a slow one skips states and delays no other reader.
type stateFeed struct {
	state func() *pageState

	mu      sync.Mutex
	readers int
	quit    chan struct{} // closed when the last reader has left
	ended   chan struct{} // closed when no more states are built
	line    []byte        // the newest state as a line, nil if none has been made yet; never changed
	err     error         // why there is none
	changed chan struct{} // closed by the next state that differs
}

// join adds a reader, until it calls leave.
func (f *stateFeed) join() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers++
	if f.readers == 1 {
		quit, ended := make(chan struct{}), make(chan struct{})
		f.quit, f.ended, f.line, f.err, f.changed = quit, ended, nil, nil, make(chan struct{})
		go func() {
			defer close(ended)
			f.make(quit)
		}()
	}
	return f.leave
}

func (f *stateFeed) leave() {
	f.mu.Lock()
	f.readers--
	last, ended := f.readers == 0, f.ended
	if last {
		close(f.quit)
	}
	f.mu.Unlock()
	if last {
		<-ended
	}
}

// newest returns the newest state as a line, nil before the first, and a channel that is closed at the next one.
func (f *stateFeed) newest() (line []byte, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.line, f.changed, f.err
}

// make builds states until quit is closed.
func (f *stateFeed) make(quit <-chan struct{}) {
	tick := time.NewTicker(pagePeriod)
	defer tick.Stop()
	for {
		line, err := json.Marshal(f.state())
		f.publish(quit, append(line, '\n'), err)
		select {
		case <-tick.C:
		case <-quit:
			return
		}
	}
}

// publish shows a state to the readers, unless the readers it was built for have left.
func (f *stateFeed) publish(quit <-chan struct{}, line []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-quit:
		return
	default:
	}
	if err == nil && bytes.Equal(line, f.line) {
		return
	}
	f.line, f.err = line, err
	close(f.changed)
	f.changed = make(chan struct{})
}
