package poddir

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"
)

// maxMessages is how many termination messages of one container stay, those of runs that the runtime has among
// them, even if those are more; of the others the newest stay, because a create whose outcome is unknown has
// one of them (spec/runtime.md 12.5).
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
// not fill the disk with them. The kept names stay, and take the place of others.
func makeRoomForMessage(root *os.Root, dir string, kept map[string]bool) error {
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
	others := maxMessages - 1
	for _, name := range names {
		if kept[name] {
			others--
			continue
		}
		info, err := folder.Lstat(name)
		if err != nil {
			continue // gone meanwhile
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			files = append(files, message{name, time.Unix(stat.Ctim.Unix())})
		}
	}
	var problems []error
	for _, name := range oldest(files, max(others, 1)) {
		if err := folder.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
