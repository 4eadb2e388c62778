package images_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods/internal/images"
	"github.com/podwright/podwright/runtime/pods/internal/worklimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReferenceGrammar(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string]string{
		"nginx":                    "nginx:latest",
		"nginx:1.25":               "nginx:1.25",
		"nginx@" + digest:          "nginx@" + digest,
		"nginx:1@" + digest:        "nginx:1@" + digest,
		"library/nginx":            "library/nginx:latest",
		"host":                     "host:latest",
		"reg.io:5000/a/b":          "reg.io:5000/a/b:latest",
		"reg.io:5000/a/b:v1":       "reg.io:5000/a/b:v1",
		"localhost/a__b/c-d.e":     "localhost/a__b/c-d.e:latest",
		"[::1]:5000/a":             "[::1]:5000/a:latest",
		"/srv/rootfs":              "/srv/rootfs",
		"UPPER/a":                  "UPPER/a:latest",
		"":                         "",
		"Nginx":                    "",
		"a b":                      "",
		"nginx:":                   "",
		"nginx:a b":                "",
		"nginx@sha256:x":           "",
		"a//b":                     "",
		"-a":                       "",
		"a/..":                     "",
		"../a":                     "",
		strings.Repeat("a", 256):   "",
		"nginx:" + long('t', 129):  "",
		"reg.io:port/a":            "",
		"a\nb":                     "",
		"\x00":                     "",
		"/srv\x00":                 "",
		"nginx:1.25@" + digest[:9]: "",
	} {
		r, err := images.Parse(text)
		if (err != nil) != (want == "") || r.Text != want {
			t.Errorf("9.2: %q gives %q, err %v; want %q", text, r.Text, err, want)
		}
	}
}

func long(c byte, n int) string { return strings.Repeat(string(c), n) }

func TestPolicyDependsOnTheTag(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]v1.PullPolicy{
		"a": v1.PullAlways, "a:latest": v1.PullAlways, "a:latest" + digest: v1.PullAlways,
		"a:1": v1.PullIfNotPresent, "a" + digest: v1.PullIfNotPresent, "/srv/rootfs": v1.PullIfNotPresent,
	} {
		if got := images.Policy(&v1.Container{Image: image}); got != want {
			t.Errorf("9.1: %s gives %s, want %s", image, got, want)
		}
	}
	if got := images.Policy(&v1.Container{Image: "a", ImagePullPolicy: v1.PullNever}); got != v1.PullNever {
		t.Errorf("a policy that is set gives %s", got)
	}
}

// bench is a puller on a fake store.
type bench struct {
	puller *images.Puller
	fake   *fake.Runtime
	mu     sync.Mutex
	events []string
}

func newBench(registry func(string) fake.Pull, present ...string) *bench {
	o := fake.Options{}
	if registry != nil {
		o.Registry = func(ref string, _ *runtimeapi.AuthConfig) fake.Pull { return registry(ref) }
	}
	for _, ref := range present {
		o.Images = append(o.Images, fake.Image{Ref: ref, Username: "web"})
	}
	b := &bench{fake: fake.New(o)}
	b.puller = images.New(images.Options{
		Service: b.fake, Clock: clock.RealClock{}, Initial: 10 * time.Second, Factor: 2, Max: 300 * time.Second,
		Turns: worklimit.New(worklimit.Rules{Limit: 1, LeastPatience: time.Minute, MostPatience: time.Minute}, clock.RealClock{}, worklimit.Metrics{}),
	})
	return b
}

func (b *bench) ensure(ctx context.Context, image string, policy v1.PullPolicy) (images.Image, error) {
	return b.puller.Ensure(ctx, images.Request{
		Pod:       &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}},
		Container: &v1.Container{Name: "c", Image: image, ImagePullPolicy: policy},
		Event: func(eventtype, reason, format string, args ...any) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, eventtype+" "+reason)
		},
	})
}

func reason(err error) string {
	var e *images.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// spec/runtime.md 9.2: the table of policies.
func TestPolicyDecidesWhetherToPull(t *testing.T) {
	for _, tc := range []struct {
		policy  v1.PullPolicy
		present bool
		broken  bool
		pulls   int
		reason  string
		events  string
	}{
		{policy: v1.PullAlways, present: true, pulls: 1, events: "[Normal Pulling Normal Pulled]"},
		{policy: v1.PullAlways, pulls: 1, events: "[Normal Pulling Normal Pulled]"},
		{policy: v1.PullIfNotPresent, present: true, events: "[Normal Pulled]"},
		{policy: v1.PullIfNotPresent, pulls: 1, events: "[Normal Pulling Normal Pulled]"},
		{policy: v1.PullNever, present: true, events: "[Normal Pulled]"},
		{policy: v1.PullNever, reason: images.ErrImageNeverPull, events: "[Warning ErrImageNeverPull]"},
		{policy: v1.PullIfNotPresent, broken: true, reason: images.ImageInspectError, events: "[Warning InspectFailed]"},
		{policy: v1.PullNever, broken: true, reason: images.ImageInspectError, events: "[Warning InspectFailed]"},
	} {
		t.Run(fmt.Sprintf("9.2 %s present=%v broken=%v", tc.policy, tc.present, tc.broken), func(t *testing.T) {
			var present []string
			if tc.present {
				present = []string{"reg.io/a:1"}
			}
			b := newBench(nil, present...)
			if tc.broken {
				b.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.ImageStatus}, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
			}
			image, err := b.ensure(t.Context(), "reg.io/a:1", tc.policy)
			if reason(err) != tc.reason || b.fake.CallCount(fake.PullImage) != tc.pulls || fmt.Sprint(b.events) != tc.events {
				t.Errorf("reason %q, %d pulls, events %v", reason(err), b.fake.CallCount(fake.PullImage), b.events)
			}
			if err == nil && image.Ref == "" {
				t.Error("no reference")
			}
			if tc.present && image.Username != "web" && tc.policy != v1.PullAlways {
				t.Errorf("user %q", image.Username)
			}
		})
	}
}

// spec/runtime.md 9.7.
func TestErrorClasses(t *testing.T) {
	for text, want := range map[string]string{
		"RegistryUnavailable: down":          images.RegistryUnavailable,
		"SignatureValidationFailed: bad key": images.SignatureValidationFailed,
		"manifest unknown":                   images.ErrImagePull,
	} {
		for _, err := range []error{
			errors.New(text), status.Error(codes.Unknown, text), fmt.Errorf("pull: %w", status.Error(codes.Unknown, text)),
			fmt.Errorf("pull: %w", errors.New(text)),
		} {
			b := newBench(func(string) fake.Pull { return fake.Pull{Err: err} })
			if _, got := b.ensure(t.Context(), "reg.io/a:1", v1.PullAlways); reason(got) != want {
				t.Errorf("9.7: %v gives %q, want %q", err, reason(got), want)
			}
		}
	}
}

// spec/runtime.md 9.3: delays double up to the maximum and are forgotten.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		b := newBench(func(string) fake.Pull {
			if broken {
				return fake.Pull{Err: errors.New("no")}
			}
			return fake.Pull{}
		})
		var delays []time.Duration
		for range 7 {
			if _, err := b.ensure(t.Context(), "reg.io/a:1", v1.PullAlways); reason(err) != images.ErrImagePull {
				t.Fatalf("reason %q", reason(err))
			}
			_, err := b.ensure(t.Context(), "reg.io/a:1", v1.PullAlways)
			var e *images.Error
			if !errors.As(err, &e) || e.Reason != images.ImagePullBackOff || !strings.Contains(e.Message, "no") {
				t.Fatalf("9.3: %v", err)
			}
			delays = append(delays, time.Until(e.RetryAt))
			clock.RealClock{}.Sleep(time.Until(e.RetryAt))
		}
		if fmt.Sprint(delays) != "[10s 20s 40s 1m20s 2m40s 5m0s 5m0s]" {
			t.Errorf("9.3: delays %v", delays)
		}
		clock.RealClock{}.Sleep(601 * time.Second)
		_, _ = b.ensure(t.Context(), "reg.io/a:1", v1.PullAlways)
		_, err := b.ensure(t.Context(), "reg.io/a:1", v1.PullAlways)
		var e *images.Error
		if !errors.As(err, &e) || time.Until(e.RetryAt) != 10*time.Second {
			t.Errorf("9.3: not forgotten: %v", err)
		}
		// An image that is there needs no pull and no delay.
		broken = false
		b.puller.Forget("u")
		if _, err := b.ensure(t.Context(), "reg.io/a:1", v1.PullAlways); err != nil {
			t.Errorf("after Forget: %v", err)
		}
	})
}

// A pull that waited for its turn finds the image that another has pulled meanwhile.
func TestWaiterFindsImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(func(string) fake.Pull { return fake.Pull{Took: time.Second} })
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := b.puller.Ensure(t.Context(), images.Request{
					Pod: &v1.Pod{}, Container: &v1.Container{Image: "reg.io/a:1"}, Event: func(string, string, string, ...any) {},
				})
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := b.fake.CallCount(fake.PullImage); n != 1 {
			t.Errorf("%d pulls", n)
		}
	})
}

// A cancelled pull is no failure: the next one is not delayed. Waiting for a turn
// can be given up too.
func TestCancelledPullDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(func(string) fake.Pull { return fake.Pull{Took: time.Minute} })
		slow, stopSlow := context.WithTimeout(t.Context(), 30*time.Second)
		defer stopSlow()
		done := make(chan error)
		go func() { _, err := b.ensure(slow, "reg.io/a:1", v1.PullAlways); done <- err }()
		synctest.Wait()
		waiting, stopWaiting := context.WithTimeout(t.Context(), time.Second)
		defer stopWaiting()
		began := time.Now()
		if _, err := b.ensure(waiting, "reg.io/b:1", v1.PullAlways); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("waiting: %v after %v", err, time.Since(began))
		}
		if err := <-done; cri.Class(err) != runtime.ErrDeadline {
			t.Errorf("pulling: %v", err)
		}
		if _, err := b.ensure(t.Context(), "reg.io/a:1", v1.PullAlways); err != nil {
			t.Errorf("the next: %v", err)
		}
	})
}

func ExampleParse() {
	r, err := images.Parse("reg.example.com/web")
	fmt.Println(r.Text, err)
	// Output: reg.example.com/web:latest <nil>
}
