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

// A disk that is full takes no record, and the pod that fills it cannot be stopped safely
// without one. So the store sets some space apart and gives it up when it needs it. If that
// does not suffice, what frees space goes first (IN4).

// reserver is a [Store] that can set space apart.
type reserver interface {
	// Reserve sets apart that many bytes of the disk. It does nothing if they are.
	Reserve(bytes int64) error
	// Reserved reports whether space is set apart. It is not once Write has given it up.
	Reserved() bool
}

// reserve is a keeper's care for the space that is set apart.
type reserve struct {
	store reserver // nil: it cannot
	// held: there was a reserve at the last look; retry is when to make one again.
	held  bool
	retry time.Time
}

// keepReserve sets space apart if none is, and returns how long to wait for the next
// attempt; negative: for as long as nothing happens.
func (k *Keeper) keepReserve(now time.Time) time.Duration {
	r := &k.reserve
	switch {
	case r.store == nil || k.options.Reserve < 0 || r.store.Reserved():
		k.spend(time.Time{})
		return -1
	case r.held: // it was given up a moment ago: there is no room
		r.held, r.retry = false, now.Add(k.options.RetryMax)
		k.spend(now)
		k.options.Logger.Info("The disk is full, the space set apart for checkpoints was given up")
	}
	if wait := r.retry.Sub(now); wait > 0 {
		return wait
	}
	if err := r.store.Reserve(k.options.Reserve); err != nil {
		if r.retry.IsZero() {
			k.options.Logger.Error(err, "No space can be set apart for checkpoints")
			k.spend(now)
		}
		r.retry = now.Add(k.options.RetryMax)
		return k.options.RetryMax
	}
	r.held, r.retry = true, time.Time{}
	k.spend(time.Time{})
	return -1
}

// spend notes since when no space is set apart; zero: it is.
func (k *Keeper) spend(since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spent = since
}

// Outrun notes that something that frees disk space does not wait for the pod's record,
// which does not fit on the disk. The record stays in memory and is written once there is
// room. err is why it could not be written.
func (k *Keeper) Outrun(ctx context.Context, uid types.UID, err error) {
	k.metrics.outrun.Add(ctx, 1)
	k.options.Logger.Error(err, "The pod is stopped or removed before its checkpoint is written, to free disk space", "uid", uid)
}

// reserveName is the file that holds the space set apart.
const reserveName = ".reserve"

// Reserve sets apart that many bytes of the disk: a file of noise, which no file system
// stores in less.
func (s *Files) Reserve(bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved {
		return nil
	}
	if old, err := s.fs.Read(reserveName, bytes); err == nil && int64(len(old)) == bytes {
		s.reserved = true // of an earlier process
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

// giveUpReserve makes room on a full disk, and reports whether there was a reserve. err is
// why something could not be written.
func (s *Files) giveUpReserve(err error) bool {
	if !durable.NoSpace(err) {
		return false
	}
	if !s.reserved { // one of an earlier process may be there
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
