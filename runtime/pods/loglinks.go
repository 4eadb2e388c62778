package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

const (
	// maxLinkBase is the room in a file name before ".log".
	maxLinkBase = 251
	linkSuffix  = ".log"
)

// linkName returns the name of a container's link (spec/runtime.md 18.2).
func linkName(pod, namespace, container, id string) string {
	base := pod + "_" + namespace + "_" + container + "-" + id
	return base[:min(len(base), maxLinkBase)] + linkSuffix
}

// linkLog makes the link to a started container's log, if the log exists. A failure
// is only logged, because the container does not depend on the link.
func (m *Manager) linkLog(pod *v1.Pod, container, id, log string) {
	if m.options.LinkDir == "" {
		return
	}
	err := m.makeLink(linkName(pod.Name, pod.Namespace, container, id), filepath.Join(m.logDirectory(pod), log))
	if err != nil {
		m.options.Logger.Info("No link to the log of a container", "podUID", pod.UID, "container", container, "error", err.Error())
	}
}

func (m *Manager) makeLink(name, target string) error {
	log, err := poddir.OpenFile(m.options.LogDir, target)
	if err != nil {
		return err
	}
	if err := errors.Join(log.Close(), podinfo.CheckName("link", name), os.MkdirAll(m.options.LinkDir, logDirMode)); err != nil {
		return err
	}
	dir, err := os.OpenRoot(m.options.LinkDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = dir.Symlink(target, name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if there, err := dir.Readlink(name); err == nil && there == target {
		return nil
	}
	return fmt.Errorf("%s exists and leads elsewhere", name)
}

// unlinkLog removes a container's link.
func (m *Manager) unlinkLog(pod *runtime.Pod, c *runtime.Container) error {
	if m.options.LinkDir == "" {
		return nil
	}
	dir, err := os.OpenRoot(m.options.LinkDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	name := linkName(pod.Name, pod.Namespace, c.Name, c.ID.ID)
	if podinfo.CheckName("link", name) != nil || !m.ourLink(dir, name) {
		return nil
	}
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("link to the log of container %s: %w", c.Name, err)
	}
	return nil
}

// ourLink reports whether name is a link into the log directory.
func (m *Manager) ourLink(dir *os.Root, name string) bool {
	target, err := dir.Readlink(name)
	if err != nil || !filepath.IsAbs(target) {
		return false
	}
	inside, err := filepath.Rel(m.options.LogDir, target)
	return err == nil && inside != "." && filepath.IsLocal(inside)
}

// sweepLinks removes links whose log is gone (spec/cleanup.md LG2). The link of a
// container that has not exited stays: a rotation makes its log vanish for a
// moment. listed is everything the runtime has, other owners' containers included.
func (m *Manager) sweepLinks(listed []*runtimeapi.Container) error {
	if m.options.LinkDir == "" {
		return nil
	}
	dir, err := os.OpenRoot(m.options.LinkDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("links to logs: %w", err)
	}
	defer dir.Close()
	names, err := poddir.Names(dir)
	problems := []error{err}
	kept := liveLinks(listed)
	for _, name := range names {
		if !strings.HasSuffix(name, linkSuffix) || kept[name] || !m.ourLink(dir, name) {
			continue
		}
		target, err := dir.Readlink(name)
		if err != nil {
			continue // gone
		}
		if log, err := poddir.OpenFile(m.options.LogDir, target); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				log.Close()
			}
			continue
		}
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("link %s: %w", name, err))
		}
	}
	return errors.Join(problems...)
}

// liveLinks are the names of the links of all containers that have not exited. The
// whole name is compared, because a long one has lost a part of the container's ID.
func liveLinks(listed []*runtimeapi.Container) map[string]bool {
	names := map[string]bool{}
	for _, c := range listed {
		if cri.ContainerState(c.GetState()) != runtime.Exited {
			l := c.GetLabels()
			names[linkName(l[runtime.LabelPodName], l[runtime.LabelPodNamespace], l[runtime.LabelContainerName], c.GetId())] = true
		}
	}
	return names
}
