package checkpoint_test

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/status/checkpoint"
)

// status.md 9.5: a file that the disk does not return is reported, keeps no other from being read, and is there for the
// next start, unless a new record has replaced it.
func TestUnreadableFileStays(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		disk := &checkpointtest.Disk{}
		disk.Put("uid-1", file(t, record("uid-1", 1)), 0)
		disk.Put("uid-2", file(t, record("uid-2", 1)), 0)
		points := &checkpointtest.Points{FS: disk, OnRead: failing("uid-1", syscall.EIO)}
		s := checkpoint.NewFiles(points)
		loaded, err := s.Load(t.Context())
		if err != nil || len(loaded.Records) != 1 || len(loaded.Bad) != 1 || loaded.Bad[0].Trouble != "unreadable" || loaded.Bad[0].Aside != "" {
			t.Fatalf("%v %+v", err, loaded)
		}
		if replaced {
			if err := s.Write(t.Context(), []*checkpoint.Record{record("uid-1", 9)}); err != nil {
				t.Fatal(err)
			}
		}
		want := map[bool]uint64{false: 1, true: 9}[replaced]
		after := load(t, disk.LosePower(nil))
		if len(after.Bad) != 0 || len(after.Records) != 2 || after.Records[0].Version != want {
			t.Errorf("replaced %t: the next start finds %+v", replaced, after)
		}
	}
	points := &checkpointtest.Points{FS: &checkpointtest.Disk{}, OnRead: func(string) error { return syscall.EIO }}
	if _, err := checkpoint.NewFiles(points).Load(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Errorf("a folder that cannot be listed: %v", err)
	}
}

// CK2, CK12, status.md 9.5: a file that waited for its key takes the place of no record that the disk does not return, nor
// of one of a newer version.
func TestFileInPlaceStays(t *testing.T) {
	for name, content := range map[string][]byte{"unreadable": file(t, record("uid-1", 9)), "newer": newer(t)} {
		disk := &checkpointtest.Disk{}
		disk.Put("uid-1", content, 0)
		disk.Put("uid-1.refused-plain", file(t, record("uid-1", 1)), 0)
		points := &checkpointtest.Points{FS: disk}
		if name == "unreadable" {
			points.OnRead = failing("uid-1", syscall.EIO)
		}
		loaded, err := checkpoint.NewFiles(points).Load(t.Context())
		if err != nil || len(loaded.Records) != 0 || len(loaded.Bad) != 1 || loaded.Bad[0].Name != "uid-1" {
			t.Errorf("%s: %v, %+v", name, err, loaded)
		}
		if data, err := disk.Read("uid-1", 1<<20); err != nil || !bytes.Equal(data, content) {
			t.Errorf("%s: it was replaced (%v)", name, err)
		}
	}
}

// failing fails the reads of one file.
func failing(file string, with error) func(string) error {
	return func(name string) error {
		if name == file {
			return with
		}
		return nil
	}
}

// status.md 9.5: without open files or memory nothing is known of any record. The load fails and can be repeated; it
// moves no file for that, and what it did set aside is reported by the next one, once.
func TestLoadNeedsOpenFiles(t *testing.T) {
	for _, scarce := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		for _, name := range []string{"uid-1", "uid-2.refused-plain"} {
			disk := &checkpointtest.Disk{}
			disk.Put("uid-0", []byte("damaged"), 0)
			disk.Put("uid-1", file(t, record("uid-1", 1)), 0)
			disk.Put("uid-2.refused-plain", file(t, record("uid-2", 1)), 0)
			points := &checkpointtest.Points{FS: disk, OnRead: failing(name, &fs.PathError{Op: "open", Path: name, Err: scarce})}
			s := checkpoint.NewFiles(points)
			for range 2 {
				if loaded, err := s.Load(t.Context()); !errors.Is(err, scarce) || !strings.Contains(err.Error(), name) {
					t.Errorf("%v, %+v", err, loaded)
				}
			}
			points.OnRead = nil
			loaded, err := s.Load(t.Context())
			if err != nil || len(loaded.Records) != 2 || len(loaded.Bad) != 1 || loaded.Bad[0].Aside != "uid-0.corrupt" {
				t.Errorf("%s %v: then %v, %+v", name, scarce, err, loaded)
			}
			if again, err := s.Load(t.Context()); err != nil || len(again.Bad) != 0 {
				t.Errorf("%s %v: reported again: %v, %+v", name, scarce, err, again.Bad)
			}
		}
	}
}
