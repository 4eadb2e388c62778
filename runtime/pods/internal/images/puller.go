package images

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
)

// Reasons of an [Error] (spec/runtime.md 22.1).
const (
	ErrImagePull              = "ErrImagePull"
	ImagePullBackOff          = "ImagePullBackOff"
	ErrImageNeverPull         = "ErrImageNeverPull"
	ImageInspectError         = "ImageInspectError"
	InvalidImageName          = "InvalidImageName"
	RegistryUnavailable       = "RegistryUnavailable"
	SignatureValidationFailed = "SignatureValidationFailed"
)

// Error is why an image is not there.
type Error struct {
	Reason  string
	Message string
	// RetryAt is the end of the back-off, if one holds the pull.
	RetryAt time.Time
	Err     error
}

// Error is the message with its reason.
func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Unwrap returns the runtime's error, if there was one.
func (e *Error) Unwrap() error { return e.Err }

// forgetAfter is how long after its last failure a delay is forgotten.
const forgetAfter = 600 * time.Second

// Options configures a [Puller]; all fields but Parallel are required.
type Options struct {
	Service runtime.ImageService
	Clock   clock.PassiveClock
	Initial time.Duration
	Factor  float64
	Max     time.Duration
	// Parallel bounds concurrent pulls; negative is unbounded.
	Parallel int
}

// Puller makes images present. It is safe for concurrent use.
type Puller struct {
	options Options
	slots   chan struct{}

	mu     sync.Mutex
	failed map[failureKey]*failure
}

type failureKey struct {
	pod   types.UID
	image string
}

type failure struct {
	delay time.Duration
	last  time.Time
	err   error
}

// New returns a puller.
func New(o Options) *Puller {
	p := &Puller{options: o, failed: map[failureKey]*failure{}}
	if o.Parallel >= 0 {
		p.slots = make(chan struct{}, max(o.Parallel, 1))
	}
	return p
}

// Request asks for one container's image.
type Request struct {
	Pod       *v1.Pod
	Container *v1.Container
	Sandbox   *runtimeapi.PodSandboxConfig
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
	// Pulled is true if it was pulled for this request.
	Pulled bool
}

// Ensure returns the image, pulled if its policy says so. It waits for a slot
// and for the pull; both end with ctx. Every error but that of ctx is an [Error].
func (p *Puller) Ensure(ctx context.Context, r Request) (Image, error) {
	ref, err := Parse(r.Container.Image)
	if err != nil {
		r.Event(v1.EventTypeWarning, "InspectFailed", "Failed to apply default image tag: %v", err)
		return Image{}, &Error{Reason: InvalidImageName, Message: err.Error(), Err: err}
	}
	spec := &runtimeapi.ImageSpec{
		Image: ref.Text, UserSpecifiedImage: r.Container.Image, Annotations: r.Pod.Annotations,
	}
	policy := Policy(r.Container)
	if policy != v1.PullAlways {
		image, err := p.present(ctx, r, spec)
		if err != nil || image.Ref != "" {
			return image, err
		}
		if policy == v1.PullNever {
			message := fmt.Sprintf("Container image %q is not present with pull policy of Never", ref.Text)
			r.Event(v1.EventTypeWarning, ErrImageNeverPull, "%s", message)
			return Image{}, &Error{Reason: ErrImageNeverPull, Message: message}
		}
	}
	key := failureKey{r.Pod.UID, ref.Text}
	if until, last := p.backOff(key); !until.IsZero() {
		message := fmt.Sprintf("Back-off pulling image %q: %v", ref.Text, last)
		r.Event(v1.EventTypeNormal, "BackOff", "%s", message)
		return Image{}, &Error{Reason: ImagePullBackOff, Message: message, RetryAt: until, Err: last}
	}
	return p.pull(ctx, r, spec, key, policy)
}

// present looks for the image; an empty Ref means that it is absent.
func (p *Puller) present(ctx context.Context, r Request, spec *runtimeapi.ImageSpec) (Image, error) {
	image, err := p.status(ctx, spec)
	if err != nil {
		if ctx.Err() != nil {
			return Image{}, err
		}
		r.Event(v1.EventTypeWarning, "InspectFailed", "Failed to inspect image %q: %v", spec.Image, err)
		message := fmt.Sprintf("Failed to inspect image %q: %v", spec.Image, err)
		return Image{}, &Error{Reason: ImageInspectError, Message: message, Err: err}
	}
	if image.Ref != "" {
		r.Event(v1.EventTypeNormal, "Pulled", "Container image %q already present on machine", spec.Image)
	}
	return image, nil
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
	image := Image{Ref: i.GetId(), Username: i.GetUsername()}
	if i.GetUid() != nil {
		uid := i.GetUid().GetValue()
		image.UID = &uid
	}
	return image, nil
}

// pull waits for its turn and pulls.
func (p *Puller) pull(ctx context.Context, r Request, spec *runtimeapi.ImageSpec, key failureKey, policy v1.PullPolicy) (Image, error) {
	asked := p.options.Clock.Now()
	waited, err := p.acquire(ctx)
	if err != nil {
		return Image{}, err
	}
	defer p.release()
	if waited && policy == v1.PullIfNotPresent {
		// Whoever held the slot may have pulled just this image.
		if image, err := p.present(ctx, r, spec); err != nil || image.Ref != "" {
			return image, err
		}
	}
	r.Event(v1.EventTypeNormal, "Pulling", "Pulling image %q", spec.Image)
	began := p.options.Clock.Now()
	ref, err := p.options.Service.PullImage(ctx, spec, nil, r.Sandbox)
	now := p.options.Clock.Now()
	if err == nil && ref == "" {
		err = errors.New("the runtime returned no image reference")
	}
	if err != nil {
		if ctx.Err() != nil {
			// Given up, not failed: no delay.
			return Image{}, err
		}
		p.fail(key, err, now)
		r.Event(v1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", spec.Image, err)
		return Image{}, &Error{Reason: class(err), Message: message(err), Err: err}
	}
	p.succeed(key)
	r.Event(v1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %s (%s including waiting)",
		spec.Image, now.Sub(began).Round(time.Millisecond), now.Sub(asked).Round(time.Millisecond))
	// The pull does not tell the image's user.
	image, err := p.status(ctx, &runtimeapi.ImageSpec{
		Image: ref, UserSpecifiedImage: spec.UserSpecifiedImage, Annotations: spec.Annotations,
	})
	if err != nil && ctx.Err() == nil {
		err = &Error{Reason: ImageInspectError, Message: fmt.Sprintf("Failed to inspect image %q: %v", spec.Image, err), Err: err}
	}
	image.Ref, image.Pulled = ref, true
	return image, err
}

// acquire waits for a slot and reports whether it had to wait.
func (p *Puller) acquire(ctx context.Context) (waited bool, err error) {
	if p.slots == nil {
		return false, ctx.Err()
	}
	select {
	case p.slots <- struct{}{}:
		return false, nil
	default:
	}
	select {
	case p.slots <- struct{}{}:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

func (p *Puller) release() {
	if p.slots != nil {
		<-p.slots
	}
}

// backOff returns until when the pull must wait and the error that caused it.
func (p *Puller) backOff(key failureKey) (until time.Time, last error) {
	now := p.options.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.failed[key]
	if f == nil || now.Sub(f.last) >= f.delay {
		return time.Time{}, nil
	}
	return f.last.Add(f.delay), f.err
}

func (p *Puller) fail(key failureKey, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.failed[key]
	if f == nil || now.Sub(f.last) > forgetAfter {
		p.failed[key] = &failure{delay: p.options.Initial, last: now, err: err}
		return
	}
	next := float64(f.delay) * p.options.Factor
	f.delay = time.Duration(min(next, float64(p.options.Max)))
	f.last, f.err = now, err
}

func (p *Puller) succeed(key failureKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failed, key)
}

// Forget drops the delays of a pod.
func (p *Puller) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.failed {
		if key.pod == uid {
			delete(p.failed, key)
		}
	}
}

// class returns the reason for a failed pull (spec/runtime.md 9.7).
func class(err error) string {
	text := message(err)
	for _, reason := range []string{RegistryUnavailable, SignatureValidationFailed} {
		if strings.HasPrefix(text, reason) {
			return reason
		}
	}
	return ErrImagePull
}

// message is the runtime's own text, without what the transport put before it.
func message(err error) string {
	var transported interface{ GRPCStatus() *status.Status }
	if errors.As(err, &transported) && transported.GRPCStatus() != nil {
		return transported.GRPCStatus().Message()
	}
	innermost := err
	for e := err; e != nil; e = errors.Unwrap(e) {
		innermost = e
	}
	if class := runtime.Class(err); class != nil && errors.Is(innermost, class) {
		// Only a class is left at the bottom: the text is above it.
		return err.Error()
	}
	return innermost.Error()
}
