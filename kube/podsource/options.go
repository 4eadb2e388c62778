package podsource

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
)

// Options configures [New]. NodeName and Client are required.
type Options struct {
	// NodeName is the name of the Node whose pods are delivered.
	NodeName string
	// Client talks to the API server.
	Client kubernetes.Interface
	// Start is closed when the Node exists: before that, the API server lets a node read no pods.
	// Nil means no wait (KS2).
	Start <-chan struct{}
	// RevisionFile is the absolute path of a file that keeps the newest revision seen. Empty means
	// that a new process accepts whatever the API server says first (KS7).
	RevisionFile string
	// Silence is how long a watch may send nothing before the pods are listed again. 0 means 3 min,
	// three times the interval between an API server's bookmarks (KS9).
	Silence time.Duration

	// Clock is the agent's time. Nil means the real clock.
	Clock clock.WithTickerAndDelayedExecution
	// Logger is silent if zero.
	Logger logr.Logger
	// Events receives the event about a list that is older than what was known. Nil drops it. It
	// may be slow, or panic: no pod waits for it.
	Events podinfo.EventRecorder
}

const defaultSilence = 3 * time.Minute

func (o *Options) complete() error {
	var problems []error
	if o.NodeName == "" {
		problems = append(problems, errors.New("no NodeName: that of the Node is required"))
	}
	if o.Client == nil {
		problems = append(problems, errors.New("no Client: a client of the API server is required"))
	}
	if o.RevisionFile != "" && !filepath.IsAbs(o.RevisionFile) {
		problems = append(problems, fmt.Errorf("the RevisionFile %q is not an absolute path", o.RevisionFile))
	}
	if o.Silence < 0 {
		problems = append(problems, fmt.Errorf("the Silence %s is negative", o.Silence))
	}
	if o.Silence == 0 {
		o.Silence = defaultSilence
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Events == nil {
		o.Events = podinfo.DiscardEvents{}
	}
	return errors.Join(problems...)
}
