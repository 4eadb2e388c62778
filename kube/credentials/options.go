package credentials

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/pods"
)

// Accounts reads service accounts. A *tokens.Accounts is one. It is called from many goroutines at
// once, may block, and returns soon after ctx ends. Its results are only read.
type Accounts interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
}

// Options configures [New].
type Options struct {
	// Config is a file of the kind CredentialProviderConfig, YAML or JSON, or a folder of such
	// files, whose names end with .yaml, .yml or .json. Only root and the user of this process may
	// be able to change it. Required.
	Config string
	// BinDir is the absolute folder of the plugins: each is a program with the name of its
	// provider. Only root and the user of this process may be able to change them. Required.
	BinDir string
	// Tokens makes tokens of pods' service accounts, and Accounts reads the accounts. Both are
	// required if a provider has tokenAttributes.
	Tokens   pods.TokenSource
	Accounts Accounts
	// Clock is the time source. Nil means the real clock.
	Clock clock.Clock
	// Meter makes the instruments, which have the kubelet's names. Nil means no metrics.
	Meter metric.Meter
}

func (o *Options) complete() error {
	var problems []error
	if o.Config == "" {
		problems = append(problems, errors.New("credentials: Config is required: the file with the providers"))
	}
	if !filepath.IsAbs(o.BinDir) {
		problems = append(problems, fmt.Errorf("credentials: BinDir %q: want the absolute path of the folder with the plugins", o.BinDir))
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return errors.Join(problems...)
}
