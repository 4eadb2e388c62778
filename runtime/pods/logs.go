package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/containerlog"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// logFile is the name of a container's log, rotated ones included
// (spec/runtime.md 2.8).
var logFile = regexp.MustCompile(`^(\d+)\.log(\..*)?$`)

const logDirMode = 0o755

// makeLogDir makes a folder below the log directory, and runs use with its descriptor if that is not nil.
func (m *Manager) makeLogDir(use func(dir int) error, elements ...string) error {
	// The runtime would follow a link that a container put there: MakeDir does not.
	if err := poddir.MakeDir(m.options.LogDir, logDirMode, use, elements...); err != nil {
		return fmt.Errorf("log directory: %w", err)
	}
	return nil
}

// makeLogFolder makes the folder of a container's logs and removes anything with the
// log's name that is not a regular file: a container put it there, and the runtime
// would write through it.
func (m *Manager) makeLogFolder(pod, container, log string) error {
	return m.makeLogDir(func(dir int) error { return poddir.RemoveIrregular(dir, log) }, pod, container)
}

// nextLog returns the number of a container's next log file: one more than that of the
// latest run that the files show, 0 if they show none or cannot be read. A runtime may
// make an empty file for a container that it never runs (RT4).
func (m *Manager) nextLog(pod, container string) int {
	dir, err := poddir.OpenDir(m.options.LogDir, pod, container)
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := poddir.Names(dir)
	if err != nil {
		return 0
	}
	next := 0
	for _, name := range names {
		match := logFile.FindStringSubmatch(name)
		if match == nil {
			continue
		}
		n, err := strconv.Atoi(match[1])
		if err != nil || n < next || n >= 1<<31-1 {
			continue
		}
		if info, err := dir.Lstat(name); err == nil && info.Size() == 0 && match[2] == "" {
			continue
		}
		next = n + 1
	}
	return next
}

// LogDirs lists the UIDs that have a log directory.
func (m *Manager) LogDirs() ([]types.UID, error) {
	entries, err := m.logDirs.Read()
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

// logFolder is the name of a pod's folder below the log directory (spec/runtime.md 3.9).
func logFolder(namespace, name string, uid types.UID) string {
	return containerlog.PodFolder(namespace, name, uid)
}

// bareUID matches log directories of the older form: only a UID, as Kubernetes makes
// them. Other names without an underscore belong to other programs.
var bareUID = regexp.MustCompile(`^(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

// uidOfLogDir takes the UID out of a log directory's name: what follows the last
// underscore, because names may contain underscores of their own, or in the older
// form the whole name (spec/cleanup.md LG1). Other names have no UID.
func uidOfLogDir(e fs.DirEntry) (types.UID, bool) {
	name := e.Name()
	if !e.IsDir() || podinfo.CheckName("log directory", name) != nil {
		return "", false
	}
	i := strings.LastIndexByte(name, '_')
	if i < 0 {
		return types.UID(name), bareUID.MatchString(name)
	}
	uid := name[i+1:]
	return types.UID(uid), podinfo.CheckName("pod UID", uid) == nil
}

// ErrContainersLeft is the error of [Manager.RemoveLogs] and [Manager.RemovePodDir] for a pod of
// which the runtime still has containers.
var ErrContainersLeft = errors.New("the runtime still has containers of the pod")

// RemoveLogs removes a pod's log directory (spec/cleanup.md LG1). It fails while the runtime has
// containers of the pod, because their ends may not be stored: [Manager.RemovePod] removes both.
// It succeeds if there is no directory.
func (m *Manager) RemoveLogs(ctx context.Context, uid types.UID) error {
	pod, err := m.leftOf(ctx, uid)
	if err != nil {
		return fmt.Errorf("remove logs: %w", err)
	}
	if pod != nil && len(pod.Containers) > 0 {
		return fmt.Errorf("remove logs: %w", ErrContainersLeft) // IN16
	}
	return m.removeLogs(ctx, uid)
}

func (m *Manager) removeLogs(ctx context.Context, uid types.UID) error {
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
			problems = append(problems, poddir.RemoveTree(ctx, m.options.LogDir, e.Name()))
		}
	}
	return errors.Join(problems...)
}
