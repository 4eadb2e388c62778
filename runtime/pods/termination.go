package pods

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/containerlog"
	"github.com/podwright/podwright/runtime/pods/internal/logrotate"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// Bounds of spec/runtime.md 20.
const (
	maxMessage     = 4096
	maxLogMessage  = 2048
	maxLogLines    = 80
	logWindow      = 64 << 10
	cannotRun      = "ContainerCannotRun"
	messageDivider = ": "
)

// TerminationMessage returns the message that an exited container left
// (spec/runtime.md 20), empty for a container in any other state. The runtime's own
// message comes first. It reads only files below the root and log directories, at most
// 128 KiB.
func (m *Manager) TerminationMessage(container *runtime.ContainerStatus) string {
	if container == nil || container.State != runtime.Exited {
		return ""
	}
	left := m.leftMessage(container)
	switch {
	case container.Message == "":
		return left
	case left == "":
		return container.Message
	}
	return container.Message + messageDivider + left
}

// messageFile is the file on the host that a container leaves its message in, "" if it has none. It may be elsewhere than this
// manager's, for example where its root folder was when the container was made.
func messageFile(c *runtime.ContainerStatus) string {
	return c.Mounts[absolute(c.Annotations[meta.AnnotationTerminationMessagePath])]
}

// leftMessage reads the message file, or the log where the policy says so.
func (m *Manager) leftMessage(c *runtime.ContainerStatus) string {
	text := ""
	host := messageFile(c)
	if _, outside := poddir.Below(m.dirs.Path, host); outside == nil { // only what is below is read
		file, err := poddir.OpenFile(m.dirs.Path, host)
		if err == nil {
			text, err = tail(file, maxMessage)
			err = errors.Join(err, file.Close())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "Error on reading termination message: " + err.Error()
		}
	}
	policy := v1.TerminationMessagePolicy(c.Annotations[meta.AnnotationTerminationPolicy])
	if text != "" || policy != v1.TerminationMessageFallbackToLogsOnError || c.ExitCode == 0 || c.Reason == cannotRun {
		return strings.ToValidUTF8(text, "") // its beginning may be within a character
	}
	if c.LogPath == "" {
		return ""
	}
	log, err := m.tailLog(c.LogPath)
	if err != nil {
		return ""
	}
	return logTail(log)
}

// tailLog reads the end of a log. After a rotation the end of the latest rotated file
// comes first; that file is not compressed yet. It is the whole log if the agent was killed between renaming
// the log and its reopening, and the container ended before the next agent came.
func (m *Manager) tailLog(path string) (string, error) {
	text := ""
	file, err := poddir.OpenFile(m.options.LogDir, path)
	if err == nil {
		text, err = tail(file, logWindow)
		err = errors.Join(err, file.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(text) == logWindow {
		return text, err
	}
	folder, name := filepath.Split(path)
	elements, err := poddir.Below(m.options.LogDir, folder)
	if err != nil {
		return text, nil // it is no log of a container
	}
	dir, err := poddir.OpenDir(m.options.LogDir, elements...)
	if err != nil {
		return text, err
	}
	defer dir.Close()
	names, err := poddir.Names(dir)
	rotated, ok := logrotate.Newest(name, names)
	if err != nil || !ok {
		return text, err
	}
	if file, err = poddir.OpenRegular(dir, rotated); err != nil {
		return text, nil // a link, or gone meanwhile
	}
	before, err := tail(file, logWindow)
	return before + text, errors.Join(err, file.Close())
}

// tail reads at most the last limit bytes.
func tail(f *os.File, limit int64) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if size := info.Size(); size > limit {
		if _, err := f.Seek(size-limit, io.SeekStart); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	return string(text), err
}

// logTail takes the last lines out of a log in the runtime's format
// (spec/runtime.md 18.3).
func logTail(log string) string {
	text := containerlog.LastLines([]byte(log), maxLogLines)
	return strings.ToValidUTF8(string(text[max(0, len(text)-maxLogMessage):]), "")
}
