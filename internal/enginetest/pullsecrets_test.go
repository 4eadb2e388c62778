package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// pullSecrets has credentials for one registry from a certain time on.
type pullSecrets struct{ objectsLater }

func (p *pullSecrets) GetSecret(context.Context, string, string) (*v1.Secret, error) {
	return &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		v1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example":{"username":"u","password":"p"}}}`),
	}}, p.get()
}

// TestPodsLookForPullSecretsSoon: IN15. Ten pods wait for an hour for the secret with the
// credentials of their image. When it comes, they run within 10 s plus jitter, although their pulls
// have failed for an hour, or at once if the engine hears of it.
func TestPodsLookForPullSecretsSoon(t *testing.T) {
	t.Parallel()
	const n = 10
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprintf("told %v", told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				secrets, rt := &pullSecrets{}, fake.New(fake.Options{})
				rt.Inject(fake.Fault{
					Match: fake.Match{Method: fake.PullImage, Func: func(c fake.Call) bool {
						return c.Request.(*runtimeapi.PullImageRequest).GetAuth().GetUsername() == ""
					}},
					Effect: fake.Effect{Err: errors.New("authentication required")},
				})
				r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.Objects = secrets }).start()
				var pods []*v1.Pod
				for i := range n {
					pod := newPod(fmt.Sprint("private-", i))
					pod.Spec.Containers[0].Image = fmt.Sprintf("registry.example/app-%d:1", i)
					pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "late"}}
					pods = append(pods, pod)
				}
				r.set(pods...)
				<-time.After(time.Hour)
				if pulls := rt.CallCount(fake.PullImage); pulls > n*25 {
					t.Errorf("%d pulls in an hour, want one in 5 min after the first", pulls)
				}
				r.comes(&secrets.objectsLater, told, pods)
			})
		})
	}
}
