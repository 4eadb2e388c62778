package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/registrykey"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/credentials"
	"github.com/podwright/podwright/runtime/pods/internal/pullrecords"
	"github.com/podwright/podwright/runtime/pods/internal/worklimit"
)

// Options configures a [Puller]. Service, Clock, Turns and the back-off are required.
type Options struct {
	Service cri.ImageService
	Clock   clock.Clock
	Initial time.Duration
	Factor  float64
	Max     time.Duration
	// Reset is how long after its last failure a delay is forgotten. 0: 600 s.
	Reset time.Duration
	// Turns bounds concurrent pulls.
	Turns *worklimit.Limiter
	// Rate bounds how many pulls begin per second, Burst how many at once. Rate
	// 0 is no limit.
	Rate  float64
	Burst int
	// Ledger knows which pods may use which images. Nil: all pods may.
	Ledger *pullrecords.Ledger
	// NodeDir has the node's own credentials. Empty: it has none.
	NodeDir string
}

// Puller makes images present. It is safe for concurrent use.
type Puller struct {
	options Options

	mu      sync.Mutex
	failed  map[failureKey]*failure
	flights map[flightKey]*flight
	looks   map[lookKey]*look
	limiter limiter
}

// New returns a puller.
func New(o Options) *Puller {
	if o.Reset == 0 {
		o.Reset = forgetAfter
	}
	return &Puller{
		options: o, failed: map[failureKey]*failure{}, flights: map[flightKey]*flight{}, looks: map[lookKey]*look{},
		limiter: newLimiter(o.Rate, o.Burst),
	}
}

// Request asks for one container's image.
type Request struct {
	Pod       *v1.Pod
	Container *v1.Container
	Sandbox   *runtimeapi.PodSandboxConfig
	// Handler is the runtime handler the image is for, empty for the default
	// (spec/runtime.md 9.8).
	Handler string
	// Secrets gives the pod's pull secrets; it is called only if they matter.
	// Nil: there are none.
	Secrets func(ctx context.Context) []*v1.Secret
	// More gives credentials for an image that are tried after those of secrets and files
	// (spec/runtime.md 10.6); it is called only if they matter. Nil: there are none.
	More func(ctx context.Context, image string) []credentials.Credential
	// Lacking reports, after Secrets and More, whether some could not be read. Nil: never.
	Lacking func() bool
	// Event reports progress in the words of spec/runtime.md 9.11.
	Event func(eventtype, reason, format string, args ...any)
}

// Image is an image in the store.
type Image struct {
	// Ref is what the container is created from.
	Ref string
	// UID and Username are the image's user.
	UID      *int64
	Username string
	// Size in bytes, 0 if unknown.
	Size uint64
	// Pulled is true if it was pulled for this request.
	Pulled bool
}

// Ensure returns the image. It pulls it if the policy says so, or if the pod has not
// shown yet that it may use the image. It waits for a slot and for the pull, at most
// until ctx ends; a pull continues while another container waits for it. Every error
// but that of ctx is an [Error].
func (p *Puller) Ensure(ctx context.Context, r Request) (Image, error) {
	ref, err := Parse(r.Container.Image)
	if err != nil {
		r.Event(v1.EventTypeWarning, "InspectFailed", "Failed to apply default image tag: %v", err)
		return Image{}, &Error{Reason: InvalidImageName, Message: err.Error(), Err: err}
	}
	f := &flight{
		spec: &runtimeapi.ImageSpec{
			Image: ref.Text, UserSpecifiedImage: r.Container.Image, Annotations: r.Pod.Annotations, RuntimeHandler: r.Handler,
		},
		sandbox: r.Sandbox,
	}
	if !strings.HasPrefix(ref.Text, "/") {
		f.repository = registrykey.Repository(ref.Text)
	}
	lookup := sync.OnceValues(func() ([]credentials.Credential, error) { return p.lookup(ctx, r, f) })
	policy := Policy(r.Container)
	if policy != v1.PullAlways {
		image, err := p.present(ctx, r, f, lookup)
		if err != nil || image.Ref != "" {
			return image, err
		}
		if policy == v1.PullNever {
			message := fmt.Sprintf("Container image %q is not present with pull policy of Never", ref.Text)
			r.Event(v1.EventTypeWarning, ErrImageNeverPull, "%s", message)
			return Image{}, &Error{Reason: ErrImageNeverPull, Message: message}
		}
	}
	return p.pull(ctx, r, f, func() ([]credentials.Credential, error) {
		found, err := lookup()
		return usable(found), err
	})
}

// usable returns the credentials that a registry can be shown.
func usable(found []credentials.Credential) []credentials.Credential {
	return slices.DeleteFunc(slices.Clone(found), func(c credentials.Credential) bool { return c.Auth == nil })
}

// lookup returns the pod's credentials for the image.
func (p *Puller) lookup(ctx context.Context, r Request, f *flight) ([]credentials.Credential, error) {
	var secrets []*v1.Secret
	if r.Secrets != nil {
		secrets = r.Secrets(ctx)
	}
	node, err := credentials.ReadNodeConfig(p.options.NodeDir)
	if err != nil {
		return nil, err
	}
	keyring, err := credentials.New(secrets, node)
	if err != nil {
		return nil, err
	}
	found := keyring.Lookup(f.repository)
	if r.More != nil && f.repository != "" {
		found = append(found, r.More(ctx, f.spec.Image)...)
	}
	return found, nil
}

// present looks for the image; an empty Ref means that it is absent, or that the
// pod has not shown that it may use it.
func (p *Puller) present(ctx context.Context, r Request, f *flight, lookup func() ([]credentials.Credential, error)) (Image, error) {
	image, err := p.find(ctx, f.spec)
	if err != nil {
		if ctx.Err() != nil {
			return Image{}, err
		}
		r.Event(v1.EventTypeWarning, "InspectFailed", "Failed to inspect image %q: %v", f.spec.Image, err)
		return Image{}, inspectError(f.spec.Image, err)
	}
	if image.Ref == "" {
		return Image{}, nil
	}
	if p.options.Ledger != nil && f.repository != "" {
		ok, err := p.options.Ledger.MayUse(ctx, f.spec.Image, f.repository, image.Ref, lookup, p.identify)
		if ctx.Err() != nil {
			return Image{}, ctx.Err()
		}
		if err != nil || !ok {
			return Image{}, nil // a pull shows why
		}
	}
	r.Event(v1.EventTypeNormal, "Pulled", "Container image %q already present on machine", f.spec.Image)
	return image, nil
}

// identify returns the ID of an image, empty if it is absent.
func (p *Puller) identify(ctx context.Context, image string) (string, error) {
	found, err := p.find(ctx, &runtimeapi.ImageSpec{Image: image})
	return found.Ref, err
}

func (p *Puller) status(ctx context.Context, spec *runtimeapi.ImageSpec) (Image, error) {
	response, err := p.options.Service.ImageStatus(ctx, spec, false)
	if err != nil {
		return Image{}, err
	}
	i := response.GetImage()
	if i == nil {
		return Image{}, nil
	}
	if i.GetId() == "" {
		return Image{}, errors.New("the runtime returned an image without ID")
	}
	image := Image{Ref: i.GetId(), Username: i.GetUsername(), Size: i.GetSize()}
	if i.GetUid() != nil {
		uid := i.GetUid().GetValue()
		image.UID = &uid
	}
	return image, nil
}

// pull pulls, unless a failure was too recent.
func (p *Puller) pull(ctx context.Context, r Request, f *flight, lookup func() ([]credentials.Credential, error)) (Image, error) {
	key := failureKey{r.Pod.UID, f.spec.Image}
	image := f.spec.Image
	creds := func() string {
		found, err := lookup()
		if err != nil {
			return ""
		}
		return keyOf(image, found).credentials
	}
	if until, last := p.backOff(key); !until.IsZero() && !p.arrived(key, creds) {
		message := fmt.Sprintf("Back-off pulling image %q: %v", f.spec.Image, last)
		r.Event(v1.EventTypeNormal, "BackOff", "%s", message)
		return Image{}, &Error{Reason: ImagePullBackOff, Message: message, RetryAt: until, Err: last}
	}
	asked := p.options.Clock.Now()
	var err error
	if f.credentials, err = lookup(); err != nil {
		err = ours(err)
	} else {
		f.key = keyOf(f.spec.Image, f.credentials)
		f.key.handler = f.spec.RuntimeHandler
		r.Event(v1.EventTypeNormal, "Pulling", "Pulling image %q", f.spec.Image)
		if f, err = p.share(ctx, r, f); err != nil {
			return Image{}, err // given up, not failed: no delay
		}
		err = f.err
	}
	var inspect *Error
	switch {
	case errors.As(err, &inspect):
		return f.image, inspect
	case err != nil && ctx.Err() != nil:
		return Image{}, err
	case err != nil:
		delay := p.fail(key, err, p.options.Clock.Now())
		p.lack(key, r.Lacking != nil && r.Lacking(), creds())
		r.Event(v1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", f.spec.Image, err)
		return Image{}, &Error{Reason: class(err), Message: message(err), BackOff: delay, Err: err}
	}
	p.succeed(key)
	r.Event(v1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %s (%s including waiting). Image size: %d bytes.",
		f.spec.Image, f.pulled.Round(time.Millisecond), p.options.Clock.Since(asked).Round(time.Millisecond), f.image.Size)
	return f.image, nil
}
