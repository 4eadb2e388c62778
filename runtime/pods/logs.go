package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// logFile is the name of a container's log, rotated ones included
// (spec/runtime.md 2.8).
var logFile = regexp.MustCompile(`^(\d+)\.log(\..*)?$`)

const logDirMode = 0o755

// makeLogDir makes a folder below the log directory. Every element must be a
// checked name.
func (m *Manager) makeLogDir(elements ...string) error {
	for _, e := range elements {
		if err := poddir.CheckName("log directory", e); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(m.options.LogDir, logDirMode); err != nil {
		return fmt.Errorf("log directory: %w", err)
	}
	root, err := os.OpenRoot(m.options.LogDir)
	if err != nil {
		return fmt.Errorf("log directory: %w", err)
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Join(elements...), logDirMode); err != nil {
		return fmt.Errorf("log directory: %w", err)
	}
	return nil
}

// nextLog returns the number of a container's next log file: one more than the
// highest there is, 0 if there is none or the folder cannot be read.
func (m *Manager) nextLog(pod, container string) int {
	root, err := os.OpenRoot(m.options.LogDir)
	if err != nil {
		return 0
	}
	defer root.Close()
	dir, err := root.Open(filepath.Join(pod, container))
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	next := 0
	for _, name := range names {
		if match := logFile.FindStringSubmatch(name); match != nil {
			if n, err := strconv.Atoi(match[1]); err == nil && n >= next && n < 1<<31-1 {
				next = n + 1
			}
		}
	}
	return next
}

// LogDirs lists the UIDs that have a log directory.
func (m *Manager) LogDirs() ([]types.UID, error) {
	entries, err := os.ReadDir(m.options.LogDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list log directories: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		if uid, ok := uidOfLogDir(e); ok {
			uids = append(uids, uid)
		}
	}
	return uids, nil
}

// uidOfLogDir takes the UID out of a log directory's name: what follows the last
// underscore, as names may contain underscores of their own
// (spec/cleanup.md LG1).
func uidOfLogDir(e fs.DirEntry) (types.UID, bool) {
	i := strings.LastIndexByte(e.Name(), '_')
	if !e.IsDir() || i < 0 || i == len(e.Name())-1 {
		return "", false
	}
	return types.UID(e.Name()[i+1:]), true
}

// RemoveLogs removes a pod's log directory (spec/cleanup.md LG1). A missing
// directory is success.
func (m *Manager) RemoveLogs(uid types.UID) error {
	entries, err := os.ReadDir(m.options.LogDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove logs: %w", err)
	}
	var problems []error
	for _, e := range entries {
		if found, ok := uidOfLogDir(e); ok && found == uid {
			problems = append(problems, poddir.RemoveTree(m.options.LogDir, e.Name()))
		}
	}
	return errors.Join(problems...)
}
