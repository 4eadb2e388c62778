package source

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/syncloop"
)

// Why a manifest is in [File.Problems]; test with errors.Is.
var (
	// ErrSkipped: not a regular file (folder, FIFO, device, socket); not read.
	ErrSkipped = errors.New("not a regular file")
	// ErrTooLarge: larger than [MaxManifestSize].
	ErrTooLarge = errors.New("manifest is too large")
	// ErrMalformed: not one pod in YAML or JSON.
	ErrMalformed = errors.New("not a pod manifest")
	// ErrInvalid: a pod that could not run; the text lists every reason.
	ErrInvalid = errors.New("invalid pod")
	// ErrUnknownField: a field this version does not know, or a key given
	// twice. The pod runs without it.
	ErrUnknownField = errors.New("unknown or repeated field")
	// ErrDuplicate: another manifest defines a pod of the same name and wins.
	ErrDuplicate = errors.New("duplicate pod name")
)

// MaxManifestSize is the size in bytes above which a manifest is refused: 10 MiB.
const MaxManifestSize = 10 << 20

// FileOptions configures a [File]. The zero value is ready to use.
type FileOptions struct {
	// Name of the source. Default "file".
	Name string
	// Period between polls. Default 20 s.
	Period time.Duration
	// PollOnly leaves out the file watch: changes are seen by the next poll.
	PollOnly bool
	// ForgetBroken removes the pod of a manifest in a folder that cannot be
	// read any more, as the kubelet does. Default: it keeps its last good pod
	// (F3). A single-file source always keeps it.
	ForgetBroken bool
	// AllowAPIReferences accepts pods that refer to objects of the API server
	// (config maps, secrets, service accounts, claims). Default: refused (D8).
	AllowAPIReferences bool

	// Recorder receives an event per new problem. Nil drops them.
	Recorder syncloop.EventRecorder
	// Clock is the source's time. Nil means the real clock.
	Clock clock.WithTicker
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives metrics. Nil drops them.
	Meter metric.Meter
}

// Problem is what is wrong with one manifest.
type Problem struct {
	// Path of the manifest, or of the folder if that cannot be read.
	Path string
	// Pod is the pod that runs from this manifest in spite of the problem (its
	// last good version, or the version without the unknown field); nil if none
	// does. Read-only.
	Pod *v1.Pod
	// Err says what is wrong; see ErrMalformed and its neighbours.
	Err error
	// Since is when the problem, with the same text, was first seen.
	Since time.Time
}

// File is a source that reads pod manifests from a folder or from a single file
// (section 4.3). Make one with [NewFile]; methods are safe for concurrent use.
type File struct{}

// NewFile returns a source for the manifests in path: a folder, not searched
// recursively, or one file. It need not exist yet; while it does not, the source
// is empty. Pods are named and identified for nodeName (D1, D2, D4). A wrong
// argument or option is an error; nothing is read yet.
func NewFile(path, nodeName string, options FileOptions) (*File, error) { return nil, nil }

// Name returns the source's name.
func (f *File) Name() string { return "" }

// Precedence returns syncloop.PrecedenceFile.
func (f *File) Precedence() syncloop.Precedence { return syncloop.PrecedenceFile }

// Run reads the manifests at once, every period and after changes, and delivers
// the full set each time (F7). It returns when ctx ends, or with the error of
// deliver. At most one Run at a time.
func (f *File) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	return nil
}

// Health says how reading the folder or file went lately. Problems of single
// manifests in a folder are in [File.Problems] only.
func (f *File) Health() syncloop.SourceHealth { return syncloop.SourceHealth{} }

// Problems returns what is wrong with single manifests now, sorted by path.
func (f *File) Problems() []Problem { return nil }
