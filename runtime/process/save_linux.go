package process

import (
	"errors"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// saveAgain is how long after an attempt to write a record the next one comes.
const saveAgain = 10 * time.Second

// saveLater arranges for unsaved records to be written once the disk takes them. Until then the
// state in memory holds, and a later agent finds the processes themselves.
func (r *Runtime) saveLater() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.saving && !r.closed {
		r.saving = true
		r.work.Go(r.saveUnsaved)
	}
}

// saveUnsaved tries to write unsaved records until there are none. It tries once more when the
// runtime is closed.
func (r *Runtime) saveUnsaved() {
	for closing := false; !closing && !r.allSaved(); {
		select {
		case <-r.clock.After(saveAgain):
		case <-r.closing:
			closing = true
		}
		r.saveAll()
	}
}

// allSaved reports whether there is no unsaved record. saveUnsaved must end then.
func (r *Runtime) allSaved() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sandboxes {
		if s.unsaved {
			return false
		}
	}
	for _, c := range r.containers {
		if c.unsaved {
			return false
		}
	}
	r.saving = false
	return true
}

// saveAll tries to write each unsaved record. It leaves out objects that an operation is under
// way on: their stop or removal may wait for long, and writes or removes the record itself.
func (r *Runtime) saveAll() {
	var sandboxes []*sandbox
	var containers []*container
	r.mu.Lock()
	for _, s := range r.sandboxes {
		if s.unsaved {
			sandboxes = append(sandboxes, s)
		}
	}
	for _, c := range r.containers {
		if c.unsaved {
			containers = append(containers, c)
		}
	}
	r.mu.Unlock()
	for _, s := range sandboxes {
		tryIn(s.op, func() { _ = r.saveSandbox(s) }) // the first failure was logged
	}
	for _, c := range containers {
		tryIn(c.op, func() { _ = r.saveContainer(c) })
	}
}

// tryIn calls f with the slot, unless it is taken.
func tryIn(s slot, f func()) {
	select {
	case s <- struct{}{}:
		defer s.release()
		f()
	default:
	}
}

// saveSandbox writes the record of a sandbox if it is unsaved; the caller holds its slot.
func (r *Runtime) saveSandbox(s *sandbox) error {
	r.mu.Lock()
	record, unsaved := s.record, s.unsaved && r.sandboxes[s.record.ID] == s
	r.mu.Unlock()
	if !unsaved {
		return nil
	}
	if err := writeRecord(r.path(sandboxesDir), record.ID+".json", record); err != nil {
		return err
	}
	r.mu.Lock()
	s.unsaved = false
	r.mu.Unlock()
	return nil
}

// onRecord returns how a container ended: if that is on record, its supervisor knew better. A record that cannot be
// read now must not be overwritten: the error says so.
func onRecord(dir string, exit exitRecord) (_ exitRecord, recorded bool, err error) {
	var known exitRecord
	switch ok, err := readRecord(dir, exitFile, &known); {
	case ok:
		return known, true, nil
	case err != nil && !errors.Is(err, errDamaged):
		return exit, false, err
	}
	return exit, false, nil
}

// saveContainer writes how a container ended if that is unsaved; the caller holds its slot.
func (r *Runtime) saveContainer(c *container) error {
	r.mu.Lock()
	exit, unsaved := c.exit, c.unsaved && r.containers[c.record.ID] == c && c.state == runtimeapi.ContainerState_CONTAINER_EXITED
	r.mu.Unlock()
	if !unsaved {
		return nil
	}
	exit, _, err := onRecord(c.dir, exit)
	if err != nil {
		return err
	}
	r.mu.Lock()
	c.exit = exit
	r.mu.Unlock()
	if err := writeExit(c.dir, exit); err != nil {
		return err
	}
	r.mu.Lock()
	c.unsaved = false
	r.mu.Unlock()
	return nil
}
