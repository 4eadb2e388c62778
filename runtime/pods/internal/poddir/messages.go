package poddir

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"
)

// maxMessages is how many termination messages of one container stay: more than there are dead
// containers whose message could still be asked for (spec/runtime.md 12.5).
const maxMessages = 10

// message is a file with a termination message.
type message struct {
	name string
	// changed is when the kernel last saw it change, which no container can set.
	changed time.Time
}

// oldest returns the names of the oldest messages, so that without them at most keep are left.
func oldest(files []message, keep int) []string {
	slices.SortFunc(files, func(a, b message) int { return a.changed.Compare(b.changed) })
	var names []string
	for _, f := range files[:max(0, len(files)-keep)] {
		names = append(names, f.name)
	}
	return names
}

// makeRoomForMessage removes old messages of a container, so that one that restarts forever does
// not fill the disk with them.
func makeRoomForMessage(root *os.Root, dir string) error {
	folder, err := root.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	names, err := Names(folder)
	if err != nil || len(names) < maxMessages {
		return err
	}
	var files []message
	for _, name := range names {
		info, err := folder.Lstat(name)
		if err != nil {
			continue // gone meanwhile
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			files = append(files, message{name, time.Unix(stat.Ctim.Unix())})
		}
	}
	var problems []error
	for _, name := range oldest(files, maxMessages-1) {
		if err := folder.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
