package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
)

// Object names an object that pods refer to. An [ObjectDir] has config maps and secrets only. The fields of an Object:
//
//	Kind            string // ConfigMap, Secret, PersistentVolumeClaim, RuntimeClass or Service
//	Namespace, Name string // a RuntimeClass has no namespace; a Service without a name means all of the namespace
type Object = podinfo.Object

// ErrExposed: users other than the owner may enter the folder of an [ObjectDir], or everyone may
// access a file in it. The ObjectDir does not use that folder or file (OB2).
var ErrExposed = errors.New("may be read by others")

// Limits of an [ObjectDir] (OB3).
const (
	maxObjectFile  = 4 << 20
	maxObjectFiles = 4096
	// maxObjectData bounds the values of one object, as an API server does.
	maxObjectData = 1 << 20
	// maxObjectsSize bounds the content kept of all files together.
	maxObjectsSize = 64 << 20
)

// errNoRoom: with this version of a file, the folder would have more than maxObjectsSize.
var errNoRoom = fmt.Errorf("%w: all files together have more than %d MiB", ErrTooLarge, maxObjectsSize>>20)

// ObjectDirOptions configures an [ObjectDir]. The zero value is ready to use.
type ObjectDirOptions struct {
	// Period between polls. Default 20 s.
	Period time.Duration
	// PollOnly turns off the file watch: the next poll sees a change.
	PollOnly bool

	// Clock tells the ObjectDir the time. Nil means the real clock.
	Clock clock.Clock
	// Logger is silent by default. No log line has a value of an object.
	Logger logr.Logger
}

// ObjectDir serves config maps and secrets from a folder of manifests, for a node without an
// API server (section 4.7). It is a pods.ObjectGetter: as Config.Pods.Objects it lets manifests
// refer to these objects, and a running engine keeps it up to date. Make one with
// [NewObjectDir]; methods are safe for concurrent use.
type ObjectDir struct {
	path    string
	options ObjectDirOptions
	decoder objectDecoder

	// Run holds run.
	run chan struct{}
	// A look holds looking, which guards files.
	looking sync.Mutex
	files   map[string]*objectFile

	mu sync.Mutex
	// looked: the first look has ended, perhaps with an error.
	looked   bool
	objects  map[Object]any // *v1.ConfigMap or *v1.Secret
	problems map[string]Problem
}

// NewObjectDir returns the config maps and secrets of the folder path. It reads the files *.yaml,
// *.yml and *.json of the folder, and ignores subfolders and names that begin with a dot. A file
// may have several documents. The folder need not exist yet; until it does, there are no
// objects. It must be closed to group and others (mode 0700), and its files must be closed to
// others; a link must not lead out of the folder.
//
// The error lists everything that is wrong with the arguments and options. If the folder exists
// and others may enter it, the error is an [ErrExposed].
func NewObjectDir(path string, options ObjectDirOptions) (*ObjectDir, error) {
	var problems []error
	if path == "" {
		problems = append(problems, errors.New("no path"))
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		problems = append(problems, fmt.Errorf("path: %w", err))
	}
	if options.Period < 0 {
		problems = append(problems, errors.New("the period must not be negative"))
	}
	setDefault(&options.Period, defaultPeriod)
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	decoder, err := newObjectDecoder()
	if err != nil {
		problems = append(problems, err)
	}
	if len(problems) == 0 {
		root, err := openObjects(absolute)
		if err == nil {
			err = root.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("object folder: %w", errors.Join(problems...))
	}
	return &ObjectDir{
		path: absolute, options: options, decoder: decoder, run: make(chan struct{}, 1),
		files: map[string]*objectFile{}, problems: map[string]Problem{},
	}, nil
}

// Run looks at the folder immediately, every period and after changes, until ctx ends. An engine
// whose Config.Pods.Objects is the ObjectDir calls Run itself. Run calls changed, unless it is nil,
// for each object that was added, changed or removed; changed must not block. At most one Run at a
// time. The error is the cause of ctx.
func (d *ObjectDir) Run(ctx context.Context, changed func(o Object)) error {
	select {
	case d.run <- struct{}{}:
		defer func() { <-d.run }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w := &watch{
		path: d.path, period: d.options.Period, pollOnly: d.options.PollOnly, clock: d.options.Clock, logger: d.options.Logger,
		changed: d.distrust,
	}
	return w.run(ctx, func(context.Context) (read, again bool, err error) {
		different, again, err := d.look()
		if changed != nil {
			for _, o := range different {
				changed(o)
			}
		}
		return err == nil, again, nil
	})
}

// GetConfigMap returns a config map, which the caller must not change. If no file defines it, the
// error is an API server's NotFound; if an unusable file may define it, the error names that file
// instead. Without a Run, only the first call looks at the folder.
func (d *ObjectDir) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	object, err := d.get(ctx, Object{Kind: kindConfigMap, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return object.(*v1.ConfigMap), nil
}

// GetSecret is GetConfigMap for a secret; its stringData is part of its data.
func (d *ObjectDir) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	object, err := d.get(ctx, Object{Kind: kindSecret, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return object.(*v1.Secret), nil
}

// get returns an object as of the latest look.
func (d *ObjectDir) get(ctx context.Context, o Object) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	looked := d.looked
	d.mu.Unlock()
	if !looked {
		_, _, _ = d.look() // its error is in the problems
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if object, ok := d.objects[o]; ok {
		return object, nil
	}
	for _, path := range slices.Sorted(maps.Keys(d.problems)) {
		if p := d.problems[path]; !only(p.Err, ErrUnknownField, errTwice) {
			return nil, fmt.Errorf("not found, but %s cannot be used and may define it: %w", path, p.Err)
		}
	}
	resource := schema.GroupResource{Resource: strings.ToLower(o.Kind) + "s"}
	return nil, apierrors.NewNotFound(resource, o.Name)
}

// Problems returns the problems of single files and of the folder itself as of the latest look,
// sorted by path; Pod is nil. No text quotes the content of a file.
func (d *ObjectDir) Problems() []Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.problems), func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
}

// Unreadable returns the Problems in the form that the engine lists, except those about unknown fields.
func (d *ObjectDir) Unreadable() []problem.Problem {
	var out []problem.Problem
	for _, p := range d.Problems() {
		if only(p.Err, ErrUnknownField) {
			continue
		}
		waits := "its objects in " + p.Path + " to be readable"
		advice := "fix the file; until then its objects stay as in its last good version"
		switch {
		case p.root:
			advice = "fix the folder; until then all objects stay as they were"
		case errors.Is(p.Err, ErrExposed):
			advice = "make it unreadable for others with chmod 600; until then its objects stay as they were"
		case errors.Is(p.Err, errNoRoom):
			advice = "make files smaller or remove some; until then its last good version counts, if there is one"
		case only(p.Err, ErrUnknownField, errTwice):
			waits, advice = "its objects in "+p.Path+" to be defined once", "define each object in one file only; until then the last file by name counts"
		}
		listed := problem.Problem{
			Kind: problem.Source, Severity: problem.Listed, Name: filepath.Base(p.Path), Since: p.Since,
			Waits: waits, Advice: advice,
		}
		out = append(out, listed.Because(p.Err))
	}
	return out
}

// publish makes the outcome of a look visible, and returns the problems that are new.
func (d *ObjectDir) publish(found []Problem) (fresh []Problem) {
	now := d.options.Clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	next := make(map[string]Problem, len(found))
	for _, p := range found {
		old, known := d.problems[p.Path]
		if p.Since = now; known && old.Err.Error() == p.Err.Error() {
			p.Since = old.Since
		} else {
			fresh = append(fresh, p)
		}
		next[p.Path] = p
	}
	d.problems, d.looked = next, true
	return fresh
}
