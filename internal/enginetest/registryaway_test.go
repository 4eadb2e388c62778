package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// away is a registry that cannot be reached. It notes when it is asked for which image, and as a sink
// the reasons with which containers wait.
type away struct {
	mu      sync.Mutex
	since   time.Time
	asked   map[string][]time.Duration
	reasons map[string][]string
}

func (a *away) pull(c fake.Call) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	image := c.Request.(*runtimeapi.PullImageRequest).GetImage().GetImage()
	a.asked[image] = append(a.asked[image], time.Since(a.since).Round(time.Second))
	return true
}

func (a *away) store(_ context.Context, u status.Update) (status.StoreResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range u.Status.ContainerStatuses {
		reason := ""
		if c.State.Waiting != nil {
			reason = c.State.Waiting.Reason
		}
		key := u.Name + "/" + c.Name
		if seen := a.reasons[key]; len(seen) == 0 || seen[len(seen)-1] != reason {
			a.reasons[key] = append(seen, reason)
		}
	}
	return status.Stored, nil
}

// TestRegistryIsAwayForAnHour (spec/runtime.md 9.3): each image is asked for as often as its back-off
// says, and at least every 5 min. In between the containers wait with ImagePullBackOff. Once the
// registry is back, they run within 5 min.
func TestRegistryIsAwayForAnHour(t *testing.T) {
	t.Parallel()
	pulls := []time.Duration{0, 10, 30, 70, 150} // seconds
	for at := time.Duration(310); at < 3600; at += 300 {
		pulls = append(pulls, at)
	}
	for i := range pulls {
		pulls[i] *= time.Second
	}
	reasons := slices.Repeat([]string{"ErrImagePull", "ImagePullBackOff"}, len(pulls)-1)
	for name, test := range map[string]struct {
		pods       int
		containers []string
	}{"a pod": {1, []string{"main"}}, "two containers": {1, []string{"one", "two"}}, "25 pods": {25, []string{"main"}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, rt := &away{asked: map[string][]time.Duration{}, reasons: map[string][]string{}}, fake.New(fake.Options{})
				undo := rt.Inject(fake.Fault{
					Match:  fake.Match{Method: fake.PullImage, Func: a.pull},
					Effect: fake.Effect{Err: errors.New("the registry is away")},
				})
				r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
					c.Observe.Sinks = append(c.Observe.Sinks, status.SinkFunc(a.store))
				}).start()
				var pods []*v1.Pod
				for i := range test.pods {
					pod := newPod(fmt.Sprintf("p%02d", i), test.containers...)
					for j := range pod.Spec.Containers {
						c := &pod.Spec.Containers[j]
						c.Image = fmt.Sprintf("example.com/%s-%s:1", pod.Name, c.Name)
					}
					pods = append(pods, pod)
				}
				a.since = time.Now()
				r.set(pods...)
				<-time.After(time.Hour)
				synctest.Wait()
				for _, pod := range pods {
					for _, c := range pod.Spec.Containers {
						if got := a.asked[c.Image]; !slices.Equal(got, pulls) {
							t.Errorf("%s was asked for after %v, want %v", c.Image, got, pulls)
						}
						got := a.reasons[pod.Name+"/"+c.Name]
						got = got[slices.Index(got, "ImagePullBackOff")+1:] // of the first moment a sink need not hear all
						if !slices.Equal(got, reasons) {
							t.Errorf("%s/%s waited with %s", pod.Name, c.Name, strings.Join(got, ", "))
						}
					}
				}
				undo()
				for _, pod := range pods {
					r.phase(pod.UID, v1.PodRunning, 5*time.Minute)
				}
			})
		})
	}
}
