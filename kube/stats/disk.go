package stats

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

// disk measures what pods use on disk. Sizes that took a walk are cached. A volume may have a mount in it whose
// server is gone, so what looks at it may hang: it has a goroutine of its own, see lookAt.
type disk struct {
	age   time.Duration
	log   logr.Logger
	calls *foreign.Calls
	// walk measures a folder. inMemory returns the file system in memory that a folder is the root of, nil if it is none.
	walk     func(ctx context.Context, folder string) (bytes, files uint64, err error)
	inMemory func(folder string, now time.Time) *stats.FsStats

	sizes map[string]size // by folder
	seen  map[string]bool
	// systems are the file systems of this reading, keyed by a folder on them.
	systems map[string]*stats.FsStats
}

// size is what a folder took at one time.
type size struct {
	at           time.Time
	bytes, files uint64
}

func newDisk(o Options) disk {
	return disk{
		age: o.DiskAge, log: o.Logger, calls: foreign.New(o.Clock), sizes: map[string]size{},
		walk: eviction.FolderSize, inMemory: fileSystemInMemory,
	}
}

// begin begins a reading; what is not requested before end is forgotten.
func (d *disk) begin() { d.seen, d.systems = map[string]bool{}, map[string]*stats.FsStats{} }

func (d *disk) end() {
	for folder := range d.sizes {
		if !d.seen[folder] {
			delete(d.sizes, folder)
		}
	}
	d.systems = nil
}

// system returns how full the file system of a folder is.
func (d *disk) system(folder string, now time.Time) stats.FsStats {
	if _, known := d.systems[folder]; !known {
		d.systems[folder] = fileSystem(folder, now)
	}
	if s := d.systems[folder]; s != nil {
		return *s
	}
	return stats.FsStats{Time: metav1.NewTime(now)}
}

// folder returns what a folder takes of its file system, by a walk that is at most age old. If ctx
// ends the walk, the result of an older one is returned, or nil without one.
func (d *disk) folder(ctx context.Context, folder string, now time.Time) *stats.FsStats {
	known, ok := d.sizes[folder]
	if !ok || now.Sub(known.at) >= d.age || now.Before(known.at) {
		if got, err := d.measure(ctx, folder, now); err == nil {
			d.sizes[folder] = got
		}
	}
	return d.known(folder, now)
}

// measure walks through a folder, unless ctx has ended.
func (d *disk) measure(ctx context.Context, folder string, now time.Time) (size, error) {
	if err := ctx.Err(); err != nil {
		return size{}, err
	}
	return lookAt(ctx, d, "the size of a folder", folder, func(ctx context.Context) (size, error) {
		bytes, files, err := d.walk(ctx, folder)
		return size{now, bytes, files}, err
	})
}

// lookAt has f look at a folder on a goroutine of its own, which is left behind if it has not returned a moment after the end of
// ctx. Until it has, the next scrapes do without the folder. If very many hang, as those of pods that come and go, others are
// looked at now and then only: each may hold a thread.
func lookAt[T any](ctx context.Context, d *disk, what, folder string, f func(ctx context.Context) (T, error)) (T, error) {
	call, limits := foreign.Call{Kind: problem.Function, Name: what, Object: folder}, foreign.Limits{Late: timing.Patience, Bounded: true}
	got, err := foreign.Ask(ctx, d.calls, call, limits, f)
	if err != nil {
		d.log.V(1).Info("A folder could not be measured", "folder", folder, "error", err.Error())
	}
	return got, err
}

// known returns the last size of a folder, nil without one.
func (d *disk) known(folder string, now time.Time) *stats.FsStats {
	d.seen[folder] = true
	known, ok := d.sizes[folder]
	if !ok {
		return nil
	}
	out := d.system(filepath.Dir(folder), now) // the same for all folders of a pod
	out.Time = metav1.NewTime(known.at)
	out.UsedBytes, out.InodesUsed = pointer(known.bytes), pointer(known.files)
	return &out
}

// add measures a pod's layers, logs and volumes, and their total.
func (d *disk) add(ctx context.Context, p *pod, spec *v1.Pod, engine Engine, found *found, now time.Time) {
	local, mounted := engine.LocalStorage(spec.UID)
	var own uint64 // what counts as the pod's ephemeral storage
	var files uint64
	count := func(f *stats.FsStats) {
		if f != nil && f.UsedBytes != nil {
			own += *f.UsedBytes
		}
		if f != nil && f.InodesUsed != nil {
			files += *f.InodesUsed
		}
	}
	for i := range p.containers {
		c := &p.containers[i]
		if layer := found.stats[c.id].GetWritableLayer(); layer.GetUsedBytes() != nil {
			root := d.system(layer.GetFsId().GetMountpoint(), now)
			root.UsedBytes, root.InodesUsed = value(layer.GetUsedBytes()), value(layer.GetInodesUsed())
			c.stats.Rootfs = &root
		}
		if folder := local.Logs[c.stats.Name]; folder != "" {
			c.stats.Logs = d.folder(ctx, folder, now)
		}
		count(c.stats.Rootfs)
	}
	for _, folders := range []map[string]string{local.Logs, local.Messages} { // of ended containers too
		for _, folder := range folders {
			count(d.folder(ctx, folder, now))
		}
	}
	if info, err := os.Lstat(local.HostsFile); err == nil {
		own, files = own+uint64(info.Size()), files+1
	}
	for i := range spec.Spec.Volumes {
		v := &spec.Spec.Volumes[i]
		path := local.EmptyDirs[v.Name]
		if path == "" {
			path = mounted[v.Name].HostPath
		}
		if path == "" || !measured(v) {
			continue
		}
		used := d.volume(ctx, path, now)
		if used == nil {
			continue
		}
		p.stats.VolumeStats = append(p.stats.VolumeStats, stats.VolumeStats{Name: v.Name, FsStats: *used})
		if local.EmptyDirs[v.Name] != "" {
			count(used)
		}
	}
	slices.SortFunc(p.stats.VolumeStats, func(a, b stats.VolumeStats) int { return cmp.Compare(a.Name, b.Name) })
	if local.HostsFile != "" {
		all := d.system(filepath.Dir(local.HostsFile), now)
		all.UsedBytes, all.InodesUsed = &own, &files
		p.stats.EphemeralStorage = &all
	}
}

// measured reports whether a volume is one that the node makes for the pod. Others may be on file
// systems that do not answer.
func measured(v *v1.Volume) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
}

// volume measures a volume: its own file system as the kernel counts it, otherwise by a walk.
func (d *disk) volume(ctx context.Context, path string, now time.Time) *stats.FsStats {
	// Volumes in memory are measured although walks have taken all their time: it takes a moment.
	own, err := lookAt(ctx, d, "the file system of a volume", path, func(context.Context) (*stats.FsStats, error) {
		return d.inMemory(path, now), nil
	})
	switch {
	case err != nil: // a walk would hang, too
		return d.known(path, now)
	case own != nil:
		return own
	}
	return d.folder(ctx, path, now)
}

// fileSystemInMemory returns how full the file system in memory is that a folder is the root of, nil if it is none.
func fileSystemInMemory(folder string, now time.Time) *stats.FsStats {
	if !mountPoint(folder) {
		return nil
	}
	return fileSystem(folder, now)
}

// mountPoint reports whether a folder is the root of a file system in memory.
func mountPoint(path string) bool {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return false
	}
	own, err := os.Lstat(path)
	above, errAbove := os.Lstat(filepath.Dir(path))
	if err != nil || errAbove != nil {
		return false
	}
	a, ok := own.Sys().(*syscall.Stat_t)
	b, okAbove := above.Sys().(*syscall.Stat_t)
	return ok && okAbove && a.Dev != b.Dev
}
