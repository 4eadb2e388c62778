package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/registrykey"
	"github.com/podwright/podwright/runtime/pods"
)

// parallel is how many runs of one plugin there are at once: images of many registries may be
// needed at once, and a plugin that hangs must not delay another.
const parallel = 10

// Source asks credential provider plugins for credentials. It is an engine's source of image
// credentials. It has no goroutine while it is idle. All methods are safe for concurrent use.
type Source struct {
	options   Options
	providers []*provider
	answers   *keeper
	metrics   instruments
	// turns bounds the runs of each provider.
	turns map[*provider]chan struct{}
	// execute and environment default to the operating system's; tests replace them.
	execute     func(ctx context.Context, c command) (output, error)
	environment func() []string
}

var _ pods.ImageCredentials = (*Source)(nil)

// New reads the configuration and looks for the plugins, without running them. The error names
// everything that is wrong with them. Later changes of the configuration have no effect; a plugin
// may be replaced at any time.
func New(o Options) (*Source, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	providers, err := readConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("credentials: the configuration %s: %w", o.Config, err)
	}
	s := &Source{
		options: o, providers: providers, answers: newKeeper(o.Clock), turns: map[*provider]chan struct{}{},
		execute: execute, environment: os.Environ,
	}
	var problems []error
	if s.metrics, err = newInstruments(o.Meter); err != nil {
		problems = append(problems, fmt.Errorf("credentials: %w", err))
	}
	for _, p := range providers {
		s.turns[p] = make(chan struct{}, parallel)
		if err := checkPlugin(filepath.Join(o.BinDir, p.name)); err != nil {
			problems = append(problems, fmt.Errorf("credentials: the plugin %q: %w", p.name, err))
		}
		if p.tokens != nil && (o.Tokens == nil || o.Accounts == nil) {
			problems = append(problems, fmt.Errorf("credentials: the plugin %q wants tokens of service accounts: Tokens and Accounts are required", p.name))
		}
	}
	return s, errors.Join(problems...)
}

// Credentials implements [pods.ImageCredentials]: the credentials from all plugins that are
// configured for the image. If some fail, it returns what the others said, for whose service
// account the failed ones were asked (KG7), and the errors.
func (s *Source) Credentials(ctx context.Context, pod *v1.Pod, image string) ([]pods.ImageCredential, error) {
	repository := registrykey.Repository(image)
	var asked []*said
	var all sync.WaitGroup
	for _, p := range s.providers {
		if !p.wants(repository) {
			continue
		}
		a := &said{}
		asked = append(asked, a)
		all.Go(func() {
			if a.answer, a.account, a.err = s.ask(ctx, p, pod, repository); a.err != nil {
				a.err = fmt.Errorf("credential plugin %q: %w", p.name, a.err)
			}
		})
	}
	all.Wait()
	var found registrykey.Ring[pods.ImageCredential]
	var problems []error
	for _, a := range asked { // in the order of the configuration
		for _, e := range a.answer.auth {
			found.Add(e.key, pods.ImageCredential{Username: e.username, Password: e.password, ServiceAccount: a.account})
		}
		problems = append(problems, a.err)
	}
	out := found.Lookup(repository)
	for _, a := range asked {
		if a.err != nil && a.account != "" {
			out = append(out, pods.ImageCredential{ServiceAccount: a.account, Missing: true})
		}
	}
	return out, errors.Join(problems...)
}

// said is what one plugin said; account is the UID of the service account that it is for, empty for
// the node.
type said struct {
	answer  answer
	account types.UID
	err     error
}

// ask returns what a plugin says about an image, from the cache or a new run.
func (s *Source) ask(ctx context.Context, p *provider, pod *v1.Pod, repository string) (answer, types.UID, error) {
	who, asked, err := s.identify(ctx, p, pod)
	if err != nil || !asked {
		return answer{}, who.account, err
	}
	got, err := s.answers.get(ctx, topic{provider: p.name, subject: who.digest(), repository: repository}, inquiry{
		// An answer for a token may be valid only for its pod.
		shared: who.account == "",
		turns:  s.turns[p],
		ask: func(ctx context.Context) (answer, error) {
			token := who.token
			if who.account != "" && token == "" {
				if token, err = s.token(ctx, p, pod); err != nil {
					return answer{}, err
				}
			}
			began := s.options.Clock.Now()
			got, err := s.run(ctx, p, repository, token, who.annotations)
			if ctx.Err() == nil {
				s.metrics.note(ctx, p.name, s.options.Clock.Since(began), err)
			}
			return got, err
		},
	})
	return got, who.account, err
}
