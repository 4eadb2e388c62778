package containerdtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// slotCount bounds the instances on one machine.
const slotCount = 100

// slotsFolder holds one lock file per slot. All users of the machine's network namespace share it,
// whatever their TMPDIR.
const slotsFolder = "/run/podwright-containerdtest"

// slot is one of a fixed number of places for an instance. Its number makes the bridge name and
// subnet unique. Its lock ends with the process that holds it, so a free lock whose file still
// names a folder marks a killed run.
type slot struct {
	number int
	lock   *os.File
}

// takeSlot locks the first free slot of folder. leftover is the folder of an
// instance whose process died without cleaning up, or "".
func takeSlot(folder string) (s *slot, leftover string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, "", fmt.Errorf("folder of the instance locks: %w", err)
	}
	for n := range slotCount {
		f, err := os.OpenFile(filepath.Join(folder, fmt.Sprintf("%d.lock", n)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, "", fmt.Errorf("instance lock: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			_ = f.Close()
			continue
		}
		if err != nil {
			_ = f.Close()
			return nil, "", fmt.Errorf("instance lock %s: %w", f.Name(), err)
		}
		content, err := os.ReadFile(f.Name())
		if err != nil {
			_ = f.Close()
			return nil, "", fmt.Errorf("instance lock: %w", err)
		}
		return &slot{number: n, lock: f}, strings.TrimSpace(string(content)), nil
	}
	return nil, "", fmt.Errorf("all %d slots in %s are in use", slotCount, folder)
}

// claim writes the instance's folder into the lock file, so that the next run can
// clean up after a killed one.
func (s *slot) claim(root string) error {
	if err := s.lock.Truncate(0); err != nil {
		return err
	}
	_, err := s.lock.WriteAt([]byte(root+"\n"), 0)
	return err
}

// release gives the slot back. clean says that the slot has no leftovers.
func (s *slot) release(clean bool) error {
	var err error
	if clean {
		err = s.lock.Truncate(0)
	}
	return errors.Join(err, s.lock.Close())
}

// bridge is the name of the slot's bridge interface, at most 15 bytes.
func (s *slot) bridge() string { return fmt.Sprintf("podwright%d", s.number) }

// network is the name of the slot's CNI network.
func (s *slot) network() string { return fmt.Sprintf("podwright-test-%d", s.number) }

// subnet is the slot's share of 198.18.0.0/15, the range reserved for
// benchmarks, which no real network uses.
func (s *slot) subnet() string { return fmt.Sprintf("198.18.%d.0/24", s.number) }

// pause is where the holder of the slot builds the pause binary. The file stays for the next
// holder; see [buildArchive].
func (s *slot) pause() string {
	return strings.TrimSuffix(s.lock.Name(), ".lock") + ".pause"
}
