package images_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods/internal/images"
	"github.com/podwright/podwright/runtime/pods/internal/pullrecords"
	"github.com/podwright/podwright/runtime/pods/internal/worklimit"
)

// private is a puller on a registry that wants to be shown one of its passwords.
type private struct {
	puller *images.Puller
	fake   *fake.Runtime
	mu     sync.Mutex
	events []string
}

func newPrivate(t *testing.T, registry func(auth *runtimeapi.AuthConfig) fake.Pull, change ...func(*images.Options)) *private {
	f := fake.New(fake.Options{Registry: func(_ string, auth *runtimeapi.AuthConfig) fake.Pull { return registry(auth) }})
	o := images.Options{
		Service: f, Clock: clock.RealClock{}, Initial: 10 * time.Second, Factor: 2, Max: 300 * time.Second,
		Turns:  worklimit.New(worklimit.Rules{}, clock.RealClock{}, worklimit.Metrics{}),
		Ledger: pullrecords.New(pullrecords.Policy{}, pullrecords.FileStore{Dir: filepath.Join(t.TempDir(), "images")}, logr.Discard()),
	}
	for _, c := range change {
		c(&o)
	}
	return &private{puller: images.New(o), fake: f}
}

// accept lets in requests with one of the passwords; "" is a request without one.
func accept(passwords ...string) func(*runtimeapi.AuthConfig) fake.Pull {
	return func(auth *runtimeapi.AuthConfig) fake.Pull {
		if slices.Contains(passwords, auth.GetPassword()) {
			return fake.Pull{}
		}
		return fake.Pull{Err: fmt.Errorf("401 for %q", auth.GetPassword())}
	}
}

// secret has up to three credentials, to be tried in the given order.
func secret(name string, passwords ...string) *v1.Secret {
	var entries []string
	keys := []string{"reg.io/team/a", "reg.io/team", "reg.io"}
	for i, p := range passwords {
		entries = append(entries, fmt.Sprintf(`%q:{"username":"u","password":%q}`, keys[i], p))
	}
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Type:       v1.SecretTypeDockercfg,
		Data:       map[string][]byte{v1.DockerConfigKey: []byte("{" + strings.Join(entries, ",") + "}")},
	}
}

func (p *private) ensure(ctx context.Context, uid types.UID, policy v1.PullPolicy, secrets ...*v1.Secret) (images.Image, error) {
	return p.puller.Ensure(ctx, images.Request{
		Pod:       &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Annotations: map[string]string{"note": "n"}}},
		Container: &v1.Container{Name: "c", Image: "reg.io/team/a:1", ImagePullPolicy: policy},
		Handler:   "kata",
		Secrets:   func(context.Context) []*v1.Secret { return secrets },
		Event: func(eventtype, reason, format string, args ...any) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.events = append(p.events, eventtype+" "+reason+" "+fmt.Sprintf(format, args...))
		},
	})
}

// shown are the passwords the registry was shown, in order.
func (p *private) shown() []string {
	var out []string
	for _, c := range p.fake.Calls(fake.Match{Method: fake.PullImage}) {
		out = append(out, c.Request.(*runtimeapi.PullImageRequest).GetAuth().GetPassword())
	}
	return out
}

// spec/runtime.md 9.6: one after the other, the first success wins; without any,
// one anonymous pull.
func TestCredentialOrder(t *testing.T) {
	for _, tc := range []struct {
		name    string
		accept  []string
		secrets []*v1.Secret
		shown   string
		reason  string
		message string
	}{
		{"the second", []string{"two"}, []*v1.Secret{secret("s", "one", "two", "three")}, "[one two]", "", ""},
		{"of the second secret", []string{"other"}, []*v1.Secret{secret("s", "one"), secret("t", "other")}, "[one other]", "", ""},
		{"anonymous", []string{""}, nil, "[]", "", ""},
		{"anonymous, no match", []string{""}, []*v1.Secret{{Type: v1.SecretTypeOpaque}}, "[]", "", ""},
		{"edge case 17: a public image, wrong credentials only", []string{""}, []*v1.Secret{secret("s", "wrong")}, "[wrong]", images.ErrImagePull, `401 for "[redacted]"`},
		{"all fail", nil, []*v1.Secret{secret("s", "wrong"), secret("t", "bad")}, "[wrong bad]", images.ErrImagePull, `[401 for "[redacted]", 401 for "[redacted]"]`},
		{"broken secret", []string{""}, []*v1.Secret{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Type: v1.SecretTypeDockercfg,
			Data: map[string][]byte{v1.DockerConfigKey: []byte("hunter2")},
		}}, "[]", images.ErrImagePull, "pull secret ns/s: it is not a JSON object of registries"},
	} {
		t.Run("9.6 "+tc.name, func(t *testing.T) {
			p := newPrivate(t, accept(tc.accept...))
			_, err := p.ensure(t.Context(), "u", v1.PullAlways, tc.secrets...)
			shown := fmt.Sprint(p.shown())
			if reason(err) != tc.reason || shown != tc.shown {
				t.Errorf("reason %q, shown %s", reason(err), shown)
			}
			var e *images.Error
			if errors.As(err, &e) && e.Message != tc.message {
				t.Errorf("message %q, want %q", e.Message, tc.message)
			}
			for _, text := range append(p.events, fmt.Sprintf("%v %+v", err, errors.Unwrap(err))) {
				for _, password := range []string{"wrong", "bad", "hunter2"} {
					if strings.Contains(text, password) {
						t.Errorf("a password is shown: %s", text)
					}
				}
			}
		})
	}
}

// spec/runtime.md 9.7, 9.6: a class that all credentials meet stays.
func TestClassOfSeveral(t *testing.T) {
	p := newPrivate(t, func(*runtimeapi.AuthConfig) fake.Pull {
		return fake.Pull{Err: errors.New("RegistryUnavailable: down")}
	})
	_, err := p.ensure(t.Context(), "u", v1.PullAlways, secret("s", "one"), secret("t", "two"))
	if reason(err) != images.RegistryUnavailable {
		t.Errorf("9.7: %v", err)
	}
}

// spec/runtime.md 9.8: what the runtime is told besides the name.
func TestImageSpec(t *testing.T) {
	p := newPrivate(t, accept(""))
	if _, err := p.ensure(t.Context(), "u", v1.PullIfNotPresent); err != nil {
		t.Fatal(err)
	}
	for _, c := range p.fake.Calls(fake.Match{}) {
		spec := c.Request.(interface{ GetImage() *runtimeapi.ImageSpec }).GetImage()
		if spec.GetRuntimeHandler() != "kata" || spec.GetAnnotations()["note"] != "n" {
			t.Errorf("9.8: %s gets %v", c.Method, spec)
		}
	}
}

// spec/runtime.md 9.9, edge case 18: an image that another pod's secret brought.
func TestAccessCheck(t *testing.T) {
	p := newPrivate(t, accept("good"))
	good, bad := secret("good", "good"), secret("bad", "bad")
	if _, err := p.ensure(t.Context(), "a", v1.PullIfNotPresent, good); err != nil {
		t.Fatal(err)
	}
	p.events = nil
	if _, err := p.ensure(t.Context(), "b", v1.PullNever); reason(err) != images.ErrImageNeverPull {
		t.Errorf("edge case 18: without a secret: %v", err)
	}
	if want := `[Warning ErrImageNeverPull Container image "reg.io/team/a:1" is not present with pull policy of Never]`; fmt.Sprint(p.events) != want {
		t.Errorf("9.9: the text tells more than if it were absent: %v", p.events)
	}
	if _, err := p.ensure(t.Context(), "c", v1.PullIfNotPresent, bad); reason(err) != images.ErrImagePull {
		t.Errorf("9.9: with another secret: %v", err)
	}
	if _, err := p.ensure(t.Context(), "d", v1.PullNever, bad, good); err != nil {
		t.Errorf("9.9: with the same secret: %v", err)
	}
	if _, err := p.ensure(t.Context(), "e", v1.PullIfNotPresent, secret("copy", "good")); err != nil {
		t.Errorf("9.9: with the same content: %v", err)
	}
	if got := fmt.Sprint(p.shown()); got != "[good bad]" {
		t.Errorf("9.9: pulled with %s, want each once", got)
	}
	// Rotated: the registry wants something else, the image is still the pod's.
	if _, err := p.ensure(t.Context(), "a", v1.PullIfNotPresent, secret("good", "next")); err != nil {
		t.Errorf("9.9: after rotation: %v", err)
	}
	if n := len(p.shown()); n != 2 {
		t.Errorf("9.9: %d pulls", n)
	}
}

// spec/runtime.md 9.4: pods with the same credentials share a pull, others ask the
// registry separately.
func TestEqualCredentialsShareAPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(auth *runtimeapi.AuthConfig) fake.Pull {
			pull := accept("good")(auth)
			pull.Took = 10 * time.Second
			return pull
		}
		p := newPrivate(t, slow)
		good, bad := secret("good", "good"), secret("bad", "bad")
		first, stop := context.WithCancel(t.Context())
		done := make(chan string, 3)
		run := func(ctx context.Context, uid types.UID, s *v1.Secret) {
			image, err := p.ensure(ctx, uid, v1.PullAlways, s)
			done <- fmt.Sprintf("%s pulled=%v %s", uid, image.Pulled, reason(err))
		}
		go run(first, "first", good)
		synctest.Wait()
		clock.RealClock{}.Sleep(4 * time.Second)
		go run(t.Context(), "second", good)
		go run(t.Context(), "third", bad)
		synctest.Wait()
		if now, _ := p.fake.InFlight(); now != 2 {
			t.Errorf("9.4: %d pulls in flight for two credentials", now)
		}
		got := p.puller.Pulling("second")
		want := images.Progress{Container: "c", Image: "reg.io/team/a:1", Since: time.Now().Add(-4 * time.Second), Waiters: 2}
		if len(got) != 1 || got[0] != want {
			t.Errorf("progress %+v, want %+v", got, want)
		}
		// The container that began it leaves; it continues for the other.
		stop()
		var ends []string
		for range 3 {
			ends = append(ends, <-done)
		}
		slices.Sort(ends)
		if want := "[first pulled=false context canceled second pulled=true  third pulled=false ErrImagePull]"; fmt.Sprint(ends) != want {
			t.Errorf("9.4: %v, want %s", ends, want)
		}
		if n := p.fake.CallCount(fake.PullImage); n != 2 {
			t.Errorf("%d pulls", n)
		}
		if left := p.puller.Pulling("second"); len(left) != 0 {
			t.Errorf("left %+v", left)
		}
		// A pull that was given up is not delayed, one that failed is.
		if _, err := p.ensure(t.Context(), "third", v1.PullAlways, good); reason(err) != images.ImagePullBackOff {
			t.Errorf("9.3: %v", err)
		}
		if _, err := p.ensure(t.Context(), "first", v1.PullAlways, good); err != nil {
			t.Errorf("9.3: %v", err)
		}
	})
}

// spec/runtime.md 9.4: whatever the order in which waiters come and go, a pull ends
// with the last of them, and nothing is left.
func TestComingAndGoing(t *testing.T) {
	for seed := range 200 {
		synctest.Test(t, func(t *testing.T) {
			p := newPrivate(t, func(*runtimeapi.AuthConfig) fake.Pull { return fake.Pull{Took: 10 * time.Second} })
			var wg sync.WaitGroup
			x := uint64(seed)*2654435761 + 1
			next := func(n uint64) uint64 { x ^= x << 13; x ^= x >> 7; x ^= x << 17; return x % n }
			var last time.Duration
			began := time.Now()
			for i := range 6 {
				come, stay := time.Duration(next(12))*time.Second, time.Duration(1+next(9))*time.Second
				last = max(last, come+stay)
				wg.Go(func() {
					clock.RealClock{}.Sleep(come)
					ctx, cancel := context.WithTimeout(t.Context(), stay)
					defer cancel()
					_, err := p.ensure(ctx, types.UID(fmt.Sprint(i)), v1.PullAlways)
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(began); took > last {
				t.Errorf("seed %d: took %v, the last stayed until %v", seed, took, last)
			}
			if now, _ := p.fake.InFlight(); now != 0 {
				t.Errorf("seed %d: %d pulls continue without a waiter", seed, now)
			}
		})
	}
}

// spec/runtime.md 9.5: no token is a failure and no wait; 0 is no limit.
func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrivate(t, accept(""), func(o *images.Options) { o.Rate, o.Burst = 5, 10 })
		pull := func(uid int) string {
			_, err := p.ensure(t.Context(), types.UID(fmt.Sprint(uid)), v1.PullAlways)
			return reason(err)
		}
		for i := range 10 {
			if r := pull(i); r != "" {
				t.Errorf("9.5: pull %d of the burst: %s", i, r)
			}
		}
		began := time.Now()
		_, err := p.ensure(t.Context(), "late", v1.PullAlways)
		var e *images.Error
		if !errors.As(err, &e) || e.Reason != images.ErrImagePull || e.Message != "pull QPS exceeded" || time.Since(began) != 0 {
			t.Errorf("9.5: %v after %v", err, time.Since(began))
		}
		if _, err := p.ensure(t.Context(), "late", v1.PullAlways); reason(err) != images.ImagePullBackOff {
			t.Errorf("9.5: no back-off: %v", err)
		}
		clock.RealClock{}.Sleep(400 * time.Millisecond)
		if a, b, c := pull(20), pull(21), pull(22); a != "" || b != "" || c != images.ErrImagePull {
			t.Errorf("9.5: after 400 ms: %q %q %q", a, b, c)
		}
		clock.RealClock{}.Sleep(time.Hour)
		for i := range 10 {
			if r := pull(30 + i); r != "" {
				t.Errorf("9.5: after an hour, pull %d: %s", i, r)
			}
		}
		if r := pull(40); r != images.ErrImagePull {
			t.Errorf("9.5: more than the burst: %q", r)
		}
		if n := p.fake.CallCount(fake.PullImage); n != 22 {
			t.Errorf("%d pulls", n)
		}
		p = newPrivate(t, accept(""))
		for i := range 50 {
			if r := pull(i); r != "" {
				t.Errorf("9.5: without a limit, pull %d: %s", i, r)
			}
		}
	})
}

// spec/runtime.md 9.9: an image whose pull has no known end belongs to no pod.
func TestAbandonedPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrivate(t, accept("good"))
		p.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Times: 1, Effect: fake.Effect{Err: runtime.ErrDeadline, Done: true}})
		good := secret("good", "good")
		if _, err := p.ensure(t.Context(), "a", v1.PullIfNotPresent, good, secret("z", "other")); cri.Class(err) != runtime.ErrDeadline {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.shown()); got != "[good]" {
			t.Errorf("9.6: another credential after an unclear end: %s", got)
		}
		status, err := p.fake.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: "reg.io/team/a:1"}, false)
		if err != nil || status.GetImage() == nil {
			t.Fatalf("the image did not come: %v", err)
		}
		if _, err := p.ensure(t.Context(), "b", v1.PullNever); reason(err) != images.ErrImageNeverPull {
			t.Errorf("9.9: %v", err)
		}
	})
}

// byName answers a pull with the image's name instead of its ID, as older CRI-O does with a digest.
type byName struct{ cri.ImageService }

func (b byName) PullImage(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	if _, err := b.ImageService.PullImage(ctx, spec, auth, sandbox); err != nil {
		return "", err
	}
	return spec.GetImage(), nil
}

// present are the IDs in the fake's store.
type present struct{ *fake.Runtime }

func (s present) IDs(ctx context.Context) (map[string]bool, error) {
	list, err := s.ListImages(ctx, nil)
	out := map[string]bool{}
	for _, i := range list {
		out[i.GetId()] = true
	}
	return out, err
}

func (s present) ID(ctx context.Context, image string) (string, error) {
	status, err := s.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: image}, false)
	return status.GetImage().GetId(), err
}

// spec/runtime.md 9.9: whatever a runtime answers to a pull, the record names the image by its ID, so
// that it is found, and is kept while the image is there. One look at the image is enough.
func TestRecordOfAPullNamesTheImageByItsID(t *testing.T) {
	var ledger *pullrecords.Ledger
	p := newPrivate(t, accept("good"), func(o *images.Options) {
		o.Service, ledger = byName{o.Service}, o.Ledger
	})
	good := secret("good", "good")
	if _, err := p.ensure(t.Context(), "a", v1.PullAlways, good); err != nil {
		t.Fatal(err)
	}
	if n := p.fake.CallCount(fake.ImageStatus); n != 1 {
		t.Errorf("9.12: %d calls of ImageStatus for a pull", n)
	}
	for range 3 {
		if _, err := p.ensure(t.Context(), "b", v1.PullNever); reason(err) != images.ErrImageNeverPull {
			t.Errorf("9.9: without the secret: %v", err)
		}
		if _, err := p.ensure(t.Context(), "c", v1.PullNever, good); err != nil {
			t.Errorf("9.9: with the secret: %v", err)
		}
		if err := ledger.Prune(t.Context(), present{p.fake}); err != nil {
			t.Fatal(err)
		}
	}
}

// spec/runtime.md 9.9: a pull whose image cannot be looked at gives no pod access, until the next pull.
func TestPulledImageThatCannotBeLookedAtIsNoPodsOwn(t *testing.T) {
	p := newPrivate(t, accept("good"), func(o *images.Options) { o.Service = byName{o.Service} })
	p.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.ImageStatus}, Times: 1, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
	good := secret("good", "good")
	if _, err := p.ensure(t.Context(), "a", v1.PullAlways, good); reason(err) != images.ImageInspectError {
		t.Fatal(err)
	}
	if _, err := p.ensure(t.Context(), "b", v1.PullNever); reason(err) != images.ErrImageNeverPull {
		t.Errorf("9.9: %v", err)
	}
	if _, err := p.ensure(t.Context(), "a", v1.PullIfNotPresent, good); err != nil {
		t.Errorf("the next pull: %v", err)
	}
	if _, err := p.ensure(t.Context(), "a", v1.PullNever, good); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// spec/runtime.md 9.4, 9.8: each runtime handler may keep images of its own, so each pulls.
func TestHandlersDoNotShareAPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrivate(t, func(*runtimeapi.AuthConfig) fake.Pull { return fake.Pull{Took: 10 * time.Second} })
		var wg sync.WaitGroup
		for _, handler := range []string{"", "kata", "kata"} {
			wg.Go(func() {
				_, err := p.puller.Ensure(t.Context(), images.Request{
					Pod: &v1.Pod{}, Container: &v1.Container{Image: "reg.io/a:1"}, Handler: handler, Event: func(string, string, string, ...any) {},
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		handlers := map[string]int{}
		for _, c := range p.fake.Calls(fake.Match{Method: fake.PullImage}) {
			handlers[c.Request.(*runtimeapi.PullImageRequest).GetImage().GetRuntimeHandler()]++
		}
		if handlers[""] != 1 || handlers["kata"] != 1 {
			t.Errorf("pulls by handler: %v", handlers)
		}
	})
}

// hungStore is a disk that does not take the record of a pull.
type hungStore struct {
	pullrecords.FileStore
	answers chan struct{}
}

func (s hungStore) Save(r *pullrecords.Record) error {
	<-s.answers
	return s.FileStore.Save(r)
}

// TestHungDiskHoldsUpNoEndOfAWait: spec/cleanup.md CK6. A pod that has to stop does not wait until a disk takes the record of the pull
// that it waited for.
func TestHungDiskHoldsUpNoEndOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := hungStore{pullrecords.FileStore{Dir: filepath.Join(t.TempDir(), "images")}, make(chan struct{})}
		p := newPrivate(t, accept(""), func(o *images.Options) { o.Ledger = pullrecords.New(pullrecords.Policy{}, disk, logr.Discard()) })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := p.ensure(ctx, "a", v1.PullAlways); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 35*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(disk.answers)
		if _, err := p.ensure(t.Context(), "a", v1.PullAlways); err != nil {
			t.Errorf("when the disk answers: %v", err)
		}
	})
}
