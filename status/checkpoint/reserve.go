package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/durable"
)

// A full disk takes no record, and without a record the pod that fills the disk cannot be stopped
// safely. So the store sets some space apart and gives it up when it needs room. If that does not
// suffice, steps that free space go first, without waiting for their record (IN4).

// reserver is a [Store] that can set space apart.
type reserver interface {
	// Reserve sets that many bytes of the disk apart. It does nothing if it already has.
	Reserve(bytes int64) error
	// Reserved reports whether space is set apart: no longer, once Write has given it up.
	Reserved() bool
}

// reserve is how a keeper looks after the space that is set apart.
type reserve struct {
	store reserver // nil: the store cannot set space apart
	// held: there was a reserve at the last look; retry is when to create one again.
	held  bool
	retry time.Time
}

// keepReserve sets space apart if there is none, and returns how long to wait for the next attempt;
// negative means until something happens.
func (k *Keeper) keepReserve(now time.Time) time.Duration {
	r := &k.reserve
	switch {
	case r.store == nil || k.options.Reserve < 0 || r.store.Reserved():
		k.spend(time.Time{})
		return -1
	case r.held: // it was given up a moment ago: there is no room
		r.held, r.retry = false, now.Add(retryMax)
		k.spend(now)
		k.logLater(func() { k.options.Logger.Info("The disk is full, the space set apart for checkpoints was given up") })
	}
	if wait := r.retry.Sub(now); wait > 0 {
		return wait
	}
	if err := guarded("Reserve", func() error { return r.store.Reserve(k.options.Reserve) }); err != nil {
		if r.retry.IsZero() {
			k.logLater(func() { k.options.Logger.Error(err, "No space can be set apart for checkpoints") })
			k.spend(now)
		}
		r.retry = now.Add(retryMax)
		return retryMax
	}
	r.held, r.retry = true, time.Time{}
	k.spend(time.Time{})
	return -1
}

// spend records since when no space has been set apart; zero: there is some.
func (k *Keeper) spend(since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spent = since
}

// Outrun records that something that frees disk space does not wait for the pod's record, which
// does not fit on the disk. The record stays in memory and is written once there is room. err is
// why it could not be written.
func (k *Keeper) Outrun(ctx context.Context, uid types.UID, err error) {
	k.metrics.outrun.Add(ctx, 1)
	k.options.Logger.Error(err, "The pod is stopped or removed before its checkpoint is written, to free disk space", "uid", uid)
}

// reserveName is the file that holds the space set apart.
const reserveName = ".reserve"

// Reserve sets that many bytes of the disk apart, as a file of random data, which no file system
// can compress.
func (s *Files) Reserve(bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved {
		return nil
	}
	if old, err := s.fs.Read(reserveName, bytes); err == nil && int64(len(old)) == bytes {
		s.reserved = true // left by an earlier process
		return nil
	}
	noise := make([]byte, bytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails, by its contract
	err := s.fs.Write(reserveName, noise)
	if err == nil {
		err = s.fs.Sync([]string{reserveName})
	}
	if err != nil {
		return errors.Join(err, s.removeReserve())
	}
	s.reserved = true
	return nil
}

// Reserved reports whether space is set apart.
func (s *Files) Reserved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserved
}

// giveUpReserve makes room on a full disk, and reports whether there was a reserve. err is the
// failure of the write that needs room.
func (s *Files) giveUpReserve(err error) bool {
	if !durable.NoSpace(err) {
		return false
	}
	if !s.reserved { // an earlier process may have left one
		if old, readErr := s.fs.Read(reserveName, 1); readErr != nil || len(old) == 0 {
			return false
		}
	}
	s.reserved = false
	return s.removeReserve() == nil && s.fs.SyncDir() == nil
}

func (s *Files) removeReserve() error {
	if err := s.fs.Remove(reserveName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
