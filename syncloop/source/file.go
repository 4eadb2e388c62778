package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/syncloop"
)

// Why a manifest is in [File.Problems]; test with errors.Is.
var (
	// ErrSkipped: not a regular file (folder, FIFO, device, socket); not read.
	ErrSkipped = errors.New("not a regular file")
	// ErrTooLarge: larger than [maxManifestSize], either the file itself or its content with
	// aliases expanded.
	ErrTooLarge = errors.New("manifest is too large")
	// ErrMalformed: not exactly one pod in YAML or JSON.
	ErrMalformed = errors.New("not a pod manifest")
	// ErrOtherKind: a readable manifest of an object that is not a pod, such as
	// a Deployment.
	ErrOtherKind = errors.New("not a pod, but a manifest of another kind")
	// ErrInvalid: a pod that could not run; the text lists every reason.
	ErrInvalid = errors.New("invalid pod")
	// ErrUnknownField: a field this version does not know, without which the
	// pod runs, or a key given twice, of which the last one counts.
	ErrUnknownField = errors.New("unknown or repeated field")
	// ErrDuplicate: another manifest defines a pod of the same name, and that
	// one wins.
	ErrDuplicate = errors.New("another pod has the same name")
)

// maxManifestSize is the size in bytes above which a manifest is refused: 10 MiB.
const maxManifestSize = 10 << 20

const defaultFileName = "file"

// FileOptions configures a [File]. The zero value is ready to use.
type FileOptions struct {
	// Name of the source. Default "file".
	Name string
	// Period between polls. Default 20 s.
	Period time.Duration
	// PollOnly turns off the file watch: the next poll sees a change.
	PollOnly bool
	// MaxFiles limits how many files of a folder are read (SRC6): first those with known pods, then
	// those that were read before, then the others by name. Files left out cause an [ErrTooMany]
	// in [File.Problems]. Default 1,000; a negative number means no limit.
	MaxFiles int
	// ForgetBroken removes the pod of a manifest in a folder that can no longer
	// be read, as the kubelet does. Default: it keeps its last good pod
	// (F3). A single-file source always keeps it.
	ForgetBroken bool
	// AllowAPIReferences accepts pods that refer to objects of the API server
	// (config maps, secrets, service accounts, claims). Default: they are refused, except
	// config maps and secrets in an engine with Config.Pods.Objects (D8).
	AllowAPIReferences bool

	// Recorder receives an event per new problem. Nil drops them.
	Recorder podinfo.EventRecorder
	// Clock tells the source the time. Nil means the real clock.
	Clock clock.Clock
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives metrics. Nil drops them.
	Meter metric.Meter
}

// Problem says what is wrong with one manifest.
type Problem struct {
	// Path of the manifest, or of the folder if that cannot be read.
	Path string
	// Pod is the pod that runs from this manifest despite the problem (its
	// last good version, or the version without the unknown field); nil if none
	// does. Read-only.
	Pod *v1.Pod
	// Err says what is wrong; see ErrMalformed and the errors next to it.
	Err error
	// Since is when the problem, with the same text, was first seen.
	Since time.Time

	root bool // of the folder, not of one manifest
}

// warning reports whether the pod runs as the manifest says, but for the fields that are not known.
func (p *Problem) warning() bool {
	return p.Pod != nil && errors.Is(p.Err, ErrUnknownField) && !errors.Is(p.Err, ErrInvalid) && !errors.Is(p.Err, ErrMalformed)
}

// File is a source that reads pod manifests from a folder or from a single file
// (section 4.3). Make one with [NewFile]; methods are safe for concurrent use.
type File struct {
	path    string
	node    string
	options FileOptions
	decoder *decoder
	metrics *fileMetrics

	// Run holds run, which guards files and folder: the path was a folder at the last look that found it.
	run    chan struct{}
	files  map[string]*manifest
	folder bool

	mu        sync.Mutex
	health    syncloop.SourceHealth
	goneSince time.Time // when the folder went; zero if it is there or never was
	problems  map[string]Problem
	undecided error
}

// NewFile returns a source for the manifests in path: a folder, not searched
// recursively, or one file. It need not exist yet; until it does, the source is
// empty. In a folder, names that begin with a dot or end with "~" are ignored. The
// watch sees most changes at once; only the next poll sees a change behind a
// symbolic link.
//
// Names and UIDs of the pods depend on nodeName (D1, D2, D4). The error lists all
// wrong arguments and options. NewFile does not read anything yet.
func NewFile(path, nodeName string, options FileOptions) (*File, error) {
	var problems []error
	if path == "" {
		problems = append(problems, errors.New("no path"))
	}
	absolute, err := filepath.Abs(path) // also cleans it (F1)
	if err != nil {
		problems = append(problems, fmt.Errorf("path: %w", err))
	}
	d, m, wrong := basics{&options.Name, &options.Period, &options.Clock, &options.MaxFiles}.complete(defaultFileName, nodeName, options.AllowAPIReferences, options.Meter)
	problems = append(problems, wrong...)
	if len(problems) > 0 {
		return nil, fmt.Errorf("file source: %w", errors.Join(problems...))
	}
	return &File{
		path: absolute, node: nodeName, options: options, decoder: d, metrics: m,
		run:      make(chan struct{}, 1),
		files:    map[string]*manifest{},
		problems: map[string]Problem{},
	}, nil
}

// Name returns the source's name.
func (f *File) Name() string { return f.options.Name }

// Precedence returns syncloop.PrecedenceFile.
func (f *File) Precedence() syncloop.Precedence { return syncloop.PrecedenceFile }

// AllowObjects accepts pods that refer to config maps and secrets from the next manifest on.
// It implements syncloop.ObjectReferrer.
func (f *File) AllowObjects() { f.decoder.objects.Store(true) }

// Health reports how the latest reads of the folder or file went. Problems of
// single manifests in a folder are only in [File.Problems].
func (f *File) Health() syncloop.SourceHealth {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}

// Undecided returns an error about the first manifest, as of the latest complete scan,
// that cannot be read and never was good in this process. If there is none, but MaxFiles
// leaves files out, it returns an [ErrTooMany]. Either may define a pod that has been
// running since before the process started. Repairing or removing them makes it nil. Files
// that are not manifests ([ErrSkipped]) do not count, nor do readable manifests of another kind
// ([ErrOtherKind]) or, with FileOptions.ForgetBroken, broken ones. It implements
// syncloop.Undecided.
func (f *File) Undecided() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.undecided
}

// Problems returns the current problems of single manifests and of the folder
// itself, sorted by path.
func (f *File) Problems() []Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	problems := slices.Collect(maps.Values(f.problems))
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return problems
}

// publish makes the outcome of a scan visible: the health, the problems, and
// events for new problems.
func (f *File) publish(ctx context.Context, now time.Time, rootErr error, found []Problem) {
	f.mu.Lock()
	if rootErr != nil {
		f.health.LastError, f.health.LastErrorAt, f.health.Pending = rootErr, now, time.Time{}
		found = append(found, Problem{Path: f.path, Err: rootErr, root: true})
		for path, p := range f.problems {
			if path != f.path {
				found = append(found, p) // as far as is known, nothing has changed
			}
		}
	} else {
		f.health = syncloop.SourceHealth{LastSuccess: now}
	}
	next := make(map[string]Problem, len(found))
	var fresh []Problem
	for _, p := range found {
		old, known := f.problems[p.Path]
		known = known && old.Err.Error() == p.Err.Error()
		p.Since = now
		if known {
			p.Since = old.Since
		} else {
			fresh = append(fresh, p)
		}
		next[p.Path] = p
	}
	solved := []string{}
	for path := range f.problems {
		if _, still := next[path]; !still {
			solved = append(solved, path)
		}
	}
	f.problems = next
	f.mu.Unlock()

	for _, p := range fresh {
		f.report(ctx, p)
	}
	for _, path := range solved {
		f.options.Logger.Info("Manifest is all right again, or gone", "path", path)
	}
}

// report logs a new problem and records an event for it.
func (f *File) report(ctx context.Context, p Problem) {
	reason := reasonOf(p.Err)
	f.metrics.problem(ctx, reason)
	fate := "no pod is started from it"
	switch {
	case p.warning():
		fate = "the pod runs without unknown fields, and with the last value of a repeated one"
	case p.Pod != nil:
		fate = "its last good pod stays"
	case p.root:
		fate = "the pods that are known stay"
	case errors.Is(p.Err, ErrTooMany):
		fate = "the others are not read; the pods that are known stay"
	}
	f.options.Logger.Error(p.Err, "Manifest has a problem", "path", p.Path, "consequence", fate)
	if f.options.Recorder == nil {
		return
	}
	text := podinfo.Message(fmt.Sprintf("manifest %s: %v; %s", p.Path, p.Err, fate))
	if p.Pod != nil {
		f.options.Recorder.Eventf(p.Pod, v1.EventTypeWarning, reason, "%s", text)
		return
	}
	f.options.Recorder.Eventf(podinfo.NodeReference(f.node), v1.EventTypeWarning, reason, "%s", text)
}

// reasonOf returns the reason of an event about err.
func reasonOf(err error) string {
	switch { // a manifest that is refused may have unknown fields too
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrDuplicate):
		return "FailedValidation"
	case errors.Is(err, ErrMalformed):
		return "ManifestUnreadable"
	case errors.Is(err, ErrUnknownField):
		return "UnknownField"
	case errors.Is(err, ErrSkipped):
		return "ManifestSkipped"
	default:
		return "ManifestUnreadable"
	}
}
