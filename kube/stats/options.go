package stats

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods"
)

// Engine is what a source needs of the engine; *podwright.Engine implements it. Its methods are
// called by one goroutine at a time.
type Engine interface {
	// Pods returns the pods of the node; containers of other pods are not shown.
	Pods() []v1.Pod
	// LocalStorage returns where a pod keeps its logs and volumes.
	LocalStorage(uid types.UID) (pods.LocalStorage, map[string]pods.MountedVolume)
}

// ImageFs is an optional ability of an image service: it reports which file systems hold images and
// the layers of containers.
type ImageFs interface {
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Options configures [New]. Node and Engine are required.
type Options struct {
	// Node is the name of the Node.
	Node string
	// Engine has the pods.
	Engine Engine
	// Runtime lists containers and, if it is a [cri.StatsLister], measures them. What it does not
	// report is read from cgroups. Nil means that only the node is measured.
	Runtime cri.Reader
	// Images is asked for the file systems of images. Nil means that they are not shown.
	Images ImageFs
	// RootDir is a folder on the file system that is shown as the node's; use the engine's RootDir.
	// Empty means that none is shown.
	RootDir string

	// Proc and Cgroups are where the kernel shows processes and cgroups: the single tree of version 2,
	// or the folder with a mount per controller of version 1. Empty means /proc and /sys/fs/cgroup.
	Proc, Cgroups string

	// MaxAge is how old a reading of another scrape may be to be reused. 0 means 1 s; negative
	// means that every scrape makes its own.
	MaxAge time.Duration
	// DiskAge is how old the sizes of volumes and logs may be, which take a walk through their
	// files. Walks may take a quarter of Timeout; what they do not reach, or what does not answer,
	// keeps its older size, or has none. 0 means 1 min.
	DiskAge time.Duration
	// Timeout bounds one scrape, including its wait for another. 0 means 8 s, so that scrapers,
	// which usually wait for 10 s, get an answer.
	Timeout time.Duration

	// Clock is the time of readings. Nil means the real clock.
	Clock clock.Clock
	// Logger is silent if zero.
	Logger logr.Logger
}

func (o *Options) complete() error {
	var problems []error
	if o.Node == "" {
		problems = append(problems, errors.New("no Node: the name of the Node is required"))
	}
	if o.Engine == nil {
		problems = append(problems, errors.New("no Engine: it is required"))
	}
	for _, dir := range []struct {
		name, def string
		value     *string
	}{{"RootDir", "", &o.RootDir}, {"Proc", "/proc", &o.Proc}, {"Cgroups", "/sys/fs/cgroup", &o.Cgroups}} {
		if *dir.value == "" {
			*dir.value = dir.def
		} else if !filepath.IsAbs(*dir.value) {
			problems = append(problems, fmt.Errorf("%s %q is not an absolute path", dir.name, *dir.value))
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{{"DiskAge", &o.DiskAge, time.Minute}, {"Timeout", &o.Timeout, 8 * time.Second}} {
		if *d.value < 0 {
			problems = append(problems, fmt.Errorf("%s %s is negative", d.name, *d.value))
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if o.MaxAge == 0 {
		o.MaxAge = time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	return errors.Join(problems...)
}
