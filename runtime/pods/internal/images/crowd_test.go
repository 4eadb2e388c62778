package images_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods/internal/images"
	"github.com/podwright/podwright/runtime/pods/internal/pullrecords"
	"github.com/podwright/podwright/runtime/pods/internal/worklimit"
)

// stored shows the images of a fake to the records.
type stored struct{ *fake.Runtime }

func (s stored) IDs(ctx context.Context) (map[string]bool, error) {
	list, err := s.ListImages(ctx, nil)
	out := map[string]bool{}
	for _, i := range list {
		out[i.GetId()] = true
	}
	return out, err
}

func (s stored) ID(ctx context.Context, image string) (string, error) {
	r, err := s.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: image}, false)
	return r.GetImage().GetId(), err
}

// A crowd of pods wants one image of a registry that refuses anonymous pulls and changes its password, while pulls
// fail, hang and take effect too late, the image is removed, its records are pruned and the agent is killed. A pod
// without a password that the registry has ever taken never gets the image, and a password is shown only for a pod that
// has it (spec/runtime.md 9.4, 9.9).
func TestCrowdSharesNoCredentials(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			var mu sync.Mutex // of what follows
			good := []string{"first"}
			waiting := map[string]int{}
			draw := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			dir := filepath.Join(t.TempDir(), "images")
			f := fake.New(fake.Options{Registry: func(_ string, auth *runtimeapi.AuthConfig) fake.Pull {
				pull := fake.Pull{Took: time.Duration(draw(20)) * time.Second}
				mu.Lock()
				defer mu.Unlock()
				if waiting[auth.GetPassword()] == 0 {
					t.Errorf("seed %d: password %q is shown, and no pod that has it waits", seed, auth.GetPassword())
				}
				if accept(good...)(auth).Err != nil {
					pull.Err = errors.New("401")
				}
				return pull
			}})
			f.Inject(
				fake.Fault{Match: fake.Match{Method: fake.PullImage, Func: func(fake.Call) bool { return draw(6) == 0 }}, Effect: fake.Effect{Err: runtime.ErrDeadline, Done: true}},
				fake.Fault{Match: fake.Match{Method: fake.PullImage, Func: func(fake.Call) bool { return draw(6) == 0 }}, Effect: fake.Effect{Hang: true, Done: true, Late: 3 * time.Second}},
				fake.Fault{Match: fake.Match{Method: fake.ImageStatus, Func: func(fake.Call) bool { return draw(8) == 0 }}, Effect: fake.Effect{Err: runtime.ErrUnavailable}},
			)
			start := func() (*private, *pullrecords.Ledger) {
				ledger := pullrecords.New(pullrecords.Policy{}, pullrecords.FileStore{Dir: dir}, logr.Discard())
				return &private{fake: f, puller: images.New(images.Options{
					Service: f, Clock: clock.RealClock{}, Initial: time.Second, Factor: 2, Max: 10 * time.Second,
					Turns:  worklimit.New(worklimit.Rules{Limit: draw(4), LeastPatience: 10 * time.Second, MostPatience: 10 * time.Second}, clock.RealClock{}, worklimit.Metrics{}),
					Ledger: ledger,
				})}, ledger
			}
			p, ledger := start()
			var pruned time.Time
			agent, kill := context.WithCancel(t.Context())
			var under sync.WaitGroup
			pod := func(uid types.UID, passwords ...string) {
				var secrets []*v1.Secret
				for _, password := range passwords {
					secrets = append(secrets, secret(password+"-"+fmt.Sprint(draw(2)), password))
				}
				if len(passwords) == 0 {
					passwords = []string{""}
				}
				policy := []v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent, v1.PullNever}[draw(3)]
				ctx, cancel := context.WithTimeout(agent, time.Duration(1+draw(60))*time.Second)
				p := p
				under.Go(func() {
					defer cancel()
					mu.Lock()
					for _, password := range passwords {
						waiting[password]++
					}
					mu.Unlock()
					_, err := p.ensure(ctx, uid, policy, secrets...)
					mu.Lock()
					defer mu.Unlock()
					for _, password := range passwords {
						waiting[password]--
					}
					if all := strings.Join(passwords, " "); err == nil && !strings.Contains(all, "first") && !strings.Contains(all, "second") {
						t.Errorf("seed %d: pod %s with %q has the image", seed, uid, passwords)
					}
				})
			}
			kinds := [][]string{{}, {"bad"}, {"first"}, {"second"}, {"bad", "first"}}
			for i := range 80 {
				switch k := draw(12); k {
				case 0:
					_ = f.RemoveImage(t.Context(), &runtimeapi.ImageSpec{Image: "reg.io/team/a:1"})
				case 1:
					if time.Since(pruned) >= time.Minute {
						pruned = time.Now()
						_ = ledger.Prune(t.Context(), stored{f})
					}
				case 2:
					mu.Lock()
					good = []string{"second"}
					mu.Unlock()
				case 3:
					kill()
					under.Wait()
					agent, kill = context.WithCancel(t.Context())
					p, ledger = start()
					pruned = time.Time{}
				default:
					pod(types.UID(fmt.Sprint("uid-", draw(30))), kinds[(i+k)%len(kinds)]...)
					<-time.After(time.Duration(draw(8)) * time.Second)
				}
			}
			kill()
			under.Wait()
			if now, _ := f.InFlight(); now != 0 || len(p.puller.Turns()) != 0 {
				t.Errorf("seed %d: %d calls in flight, turns %v", seed, now, p.puller.Turns())
			}
		})
	}
}
