package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/images"
	"github.com/podwright/podwright/runtime/pods/internal/objects"
	"github.com/podwright/podwright/runtime/pods/internal/pullrecords"
	"github.com/podwright/podwright/runtime/pods/internal/worklimit"
)

// ImagePullOptions says how images are pulled and which pods may use them. The zero
// value is useful.
type ImagePullOptions struct {
	// Rate bounds how many pulls begin per second; a pull above it fails and is
	// delayed like any failed pull. 0: no limit. Burst is how many may begin at once;
	// 0 means 10 (spec/runtime.md 9.5).
	Rate  float64
	Burst int
	// CredentialsDir is a folder with the node's own registry credentials, in a
	// config.json or, if there is none, a .dockercfg. It is read for every pull.
	// Empty: the node has none. Home folders are never
	// read (spec/runtime.md 10.5).
	CredentialsDir string
	// Credentials supplies more credentials, tried after those of secrets and of
	// CredentialsDir. Nil: there are none (spec/runtime.md 10.6).
	Credentials ImageCredentials
	// Verify says which present images a pod may use only with credentials that pulled
	// them before; without them it pulls the image itself (spec/runtime.md 9.9). The
	// values are the kubelet's: NeverVerify, NeverVerifyPreloadedImages (only images
	// that the engine pulled are verified), NeverVerifyAllowlistedImages (all but
	// those of Exempt) or AlwaysVerify. Empty: NeverVerifyPreloadedImages.
	Verify string
	// Exempt are the repositories of NeverVerifyAllowlistedImages: names without tag
	// and digest, "docker.io/library/x" for "x", or prefixes that end with "/*".
	Exempt []string
}

const defaultPullBurst = 10

// backOffSeen is how long after a failed pull its back-off shows, and with it the end of the
// back-off. The worker's own pause is of no use: it doubles with each step, so it would soon be longer.
const backOffSeen = time.Second

func (o *ImagePullOptions) complete() error {
	var problems []error
	if o.Rate < 0 {
		problems = append(problems, fmt.Errorf("ImagePull.Rate %v is negative", o.Rate))
	}
	if o.Burst < 0 {
		problems = append(problems, fmt.Errorf("ImagePull.Burst %d is negative", o.Burst))
	}
	o.Burst = cmp.Or(o.Burst, defaultPullBurst)
	if o.CredentialsDir != "" && !filepath.IsAbs(o.CredentialsDir) {
		problems = append(problems, fmt.Errorf("ImagePull.CredentialsDir %q is not absolute", o.CredentialsDir))
	}
	if err := o.policy().Check(); err != nil {
		problems = append(problems, fmt.Errorf("ImagePull.Verify: %w", err))
	}
	return errors.Join(problems...)
}

func (o *ImagePullOptions) policy() pullrecords.Policy {
	return pullrecords.Policy{Verify: o.Verify, Exempt: o.Exempt}
}

// newPuller makes the puller with its records below RootDir.
func (m *Manager) newPuller(service cri.ImageService) {
	o := &m.options
	m.pullRecords = pullrecords.New(o.ImagePull.policy(),
		pullrecords.FileStore{Dir: filepath.Join(o.RootDir, "images")}, o.Logger)
	m.imageStore = imageStore{service}
	m.puller = images.New(images.Options{
		Service: service, Clock: o.Clock,
		Turns: worklimit.New(worklimit.Rules{
			Limit: o.MaxParallelImagePulls, LeastPatience: mostPatience, MostPatience: mostPatience,
		}, o.Clock, m.metrics.pulls),
		Initial: o.ImageBackOff.Initial, Factor: o.ImageBackOff.Factor, Max: o.ImageBackOff.Max, Reset: o.ImageBackOff.Reset,
		Rate: o.ImagePull.Rate, Burst: o.ImagePull.Burst,
		Ledger: m.pullRecords, NodeDir: o.ImagePull.CredentialsDir,
	})
}

// ensureImage makes an image present for a container or volume of the pod. That may take hours: the files of containers
// that run are renewed meanwhile (IN15).
func (s *podSync) ensureImage(ctx context.Context, r images.Request) (images.Image, error) {
	defer s.keepFresh(ctx)()
	r.Pod, r.Sandbox, r.Handler, r.Secrets, r.More = s.pod, s.sandboxConfig, s.handler, s.pullSecrets, s.moreCredentials
	r.Lacking = func() bool { return s.secretsMissing || s.credentialsMissing }
	return s.m.puller.Ensure(ctx, r)
}

// pull makes the image present.
func (st *starting) pull(ctx context.Context) (images.Image, *startFailure) {
	image, err := st.ensureImage(ctx, images.Request{Container: st.spec, Event: st.event})
	if err == nil {
		return image, nil
	}
	f := st.pullFailure(err)
	var e *images.Error
	if errors.As(err, &e) && ctx.Err() == nil {
		st.event(v1.EventTypeWarning, "Failed", "Error: %s", e.Reason)
	}
	return image, f
}

// pullFailure is the failed start of a container whose image is missing. A pod whose pull secrets or
// credentials could not be read tries again soon: once it has them, its pull is not delayed (IN15). It is not
// looked at for its back-off: with other credentials each time, each look would be a pull.
func (st *starting) pullFailure(err error) *startFailure {
	f := &startFailure{name: st.spec.Name, reason: images.ErrImagePull, message: err.Error(), err: err}
	lacking := st.secretsMissing || st.credentialsMissing
	var e *images.Error
	if errors.As(err, &e) {
		f.reason, f.message, f.retryAt, f.held = e.Reason, e.Message, e.RetryAt, !e.RetryAt.IsZero()
		if e.BackOff > 0 && !lacking {
			f.lookAt = st.m.options.Clock.Now().Add(min(backOffSeen, e.BackOff/2))
		}
	}
	if lacking {
		f.err = st.m.waits(err)
		if soon := st.m.options.Clock.Now().Add(st.m.options.ObjectRetry); f.retryAt.After(soon) {
			f.retryAt = soon
		}
	}
	return f
}

// pullSecrets reads the pod's pull secrets, once per sync. A secret that cannot be read
// raises an event and is left out (spec/runtime.md 9.11).
func (s *podSync) pullSecrets(ctx context.Context) []*v1.Secret {
	if s.secretsRead {
		return s.secrets
	}
	reader := objects.NewReader(s.m.options.Objects, s.pod.Namespace)
	var missing []string
	for _, ref := range s.pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		secret, err := reader.Secret(ctx, ref.Name)
		if err != nil {
			missing = append(missing, ref.Name)
			continue
		}
		s.secrets = append(s.secrets, secret)
	}
	if ctx.Err() != nil {
		return nil
	}
	s.secretsRead, s.secretsMissing = true, len(missing) > 0
	if len(missing) > 0 {
		s.m.podEvent(s.pod, v1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
			"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(missing, ", "))
	}
	return s.secrets
}

// Pull is an image that a pod waits for.
type Pull struct {
	// Container that waits.
	Container string
	Image     string
	// Since is when the pull was asked for, by this pod or by another.
	Since time.Time
	// Queued is true as long as other pulls come first.
	Queued bool
	// Waiters is how many containers wait for this pull, this one included.
	Waiters int
}

// String describes the pull in a sentence.
func (p Pull) String() string {
	what := "Pulling"
	if p.Queued {
		what = "Waiting to pull"
	}
	text := fmt.Sprintf("%s image %q since %s", what, p.Image, p.Since.UTC().Format(time.RFC3339))
	if p.Waiters > 1 {
		text += fmt.Sprintf(", %d containers wait for it", p.Waiters)
	}
	return text
}

// Pulling returns the pulls that the pod's containers wait for right now, sorted by
// container. It does not block.
func (m *Manager) Pulling(uid types.UID) []Pull {
	var out []Pull
	for _, p := range m.puller.Pulling(uid) {
		out = append(out, Pull(p))
	}
	slices.SortFunc(out, func(a, b Pull) int { return strings.Compare(a.Container, b.Container) })
	return out
}

// PruneImageRecords drops what is remembered about images that are no longer in
// the store, and decides about pulls that a crash interrupted (spec/runtime.md 9.9).
// Call it from time to time, at most once a minute: an image must be missing twice.
// It makes no call if nothing was pulled since a run that found everything in order.
func (m *Manager) PruneImageRecords(ctx context.Context) error {
	if err := m.pullRecords.Prune(ctx, m.imageStore); err != nil {
		return fmt.Errorf("records of image pulls: %w", err)
	}
	return nil
}

// imageStore shows the runtime's images to the records.
type imageStore struct{ service cri.ImageService }

func (s imageStore) IDs(ctx context.Context) (map[string]bool, error) {
	list, err := s.service.ListImages(ctx, nil)
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool, len(list))
	for _, i := range list {
		out[i.GetId()] = true
	}
	return out, nil
}

func (s imageStore) ID(ctx context.Context, image string) (string, error) {
	response, err := s.service.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: image}, false)
	if err != nil {
		return "", err
	}
	return response.GetImage().GetId(), nil
}
