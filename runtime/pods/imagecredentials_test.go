package pods_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// cloud is a source of credentials.
type cloud struct {
	mu    sync.Mutex
	found []pods.ImageCredential
	err   error
	asked []string
}

func (c *cloud) Credentials(_ context.Context, pod *v1.Pod, image string) ([]pods.ImageCredential, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, string(pod.UID)+" "+image)
	return c.found, c.err
}

// users are who pulled so far, "-" for no credential.
func (w *world) users() string {
	var out []string
	for _, call := range w.fake.Calls(fake.Match{Method: fake.PullImage}) {
		user := call.Request.(*runtimeapi.PullImageRequest).GetAuth().GetUsername()
		if user == "" {
			user = "-"
		}
		out = append(out, user)
	}
	return strings.Join(out, " ")
}

// spec/runtime.md 10.6: more credentials are tried after those of secrets; if their source fails
// the image is pulled with the others, and looked for again soon.
func TestMoreCredentialsComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, source := newShelf(), &cloud{found: []pods.ImageCredential{{Username: "c1", Password: "hunter2"}, {Username: "c2", Password: "hunter3"}}}
		w := newWorld(t, nil, func(o *pods.Options) { o.Objects, o.ImagePull.Credentials = objects, source })
		objects.pullSecret("mine", "p")
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Times: 3, Effect: fake.Effect{Err: errors.New("denied to hunter2 and hunter3")}})
		pod := newPod(func(p *v1.Pod) {
			p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "mine"}}
			p.Spec.Containers[0].Image = "example.com/app:1"
		})
		w.sync(pod)
		if got := w.users(); got != "u c1 c2" {
			t.Errorf("10.6: pulled as %q", got)
		}
		if want := "uid-1 example.com/app:1"; source.asked[0] != want {
			t.Errorf("10.6: asked for %q, want %q", source.asked[0], want)
		}
		source.found, source.err = source.found[1:], errors.New("the metadata service is away")
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Times: 1, Effect: fake.Effect{Err: errors.New("denied")}})
		pass(20 * second)
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		if got := w.users(); got != "u c1 c2 u c2" {
			t.Errorf("10.6: then pulled as %q", got)
		}
		if !w.events.has(`Warning FailedToRetrieveImageCredentials  Unable to get credentials for image "example.com/app:1": the metadata service is away`) {
			t.Errorf("10.6: no event in %v", w.events.list())
		}
		for _, e := range w.events.list() {
			if strings.Contains(e, "hunter") {
				t.Errorf("10.6: told %s", e)
			}
		}
	})
}

// spec/runtime.md 9.3: soon after a failed pull the pod is looked at, but not if it lacks credentials: others would be pulled
// with at each look, without a back-off.
func TestFailedPullWithoutAllCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		secrets []v1.LocalObjectReference
		err     error
		look    bool
	}{
		"nothing lacks":     {nil, nil, true},
		"a secret lacks":    {[]v1.LocalObjectReference{{Name: "missing"}}, nil, false},
		"credentials lack":  {nil, errors.New("the plugin is broken"), false},
		"there are neither": {[]v1.LocalObjectReference{{Name: "missing"}}, errors.New("the plugin is broken"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &cloud{found: []pods.ImageCredential{{Username: "token", Password: "p"}}, err: tc.err}
				w := newWorld(t, nil, func(o *pods.Options) { o.Objects, o.ImagePull.Credentials = newShelf(), source })
				w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Err: errors.New("denied")}})
				r := w.sync(newPod(func(p *v1.Pod) {
					p.Spec.ImagePullSecrets, p.Spec.Containers[0].Image = tc.secrets, "example.com/app:1"
				}))
				if r.Err == nil || r.RetryAt.IsZero() == tc.look {
					t.Errorf("9.3: after %v the next step comes at %v", r.Err, r.RetryAt)
				}
			})
		})
	}
}

// spec/runtime.md 9.9, 10.6: while the credential of a service account cannot be had, the account's pods keep the images that
// were pulled with it. Pods of other accounts do not get them, and nothing is pulled with the name of the account alone.
func TestAccountCountsWhileItsCredentialIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &cloud{found: []pods.ImageCredential{{Username: "account", Password: "p", ServiceAccount: "sa-1"}}}
		w := newWorld(t, nil, func(o *pods.Options) { o.ImagePull.Credentials = source })
		pod := func(uid types.UID, account string) *v1.Pod {
			return newPod(func(p *v1.Pod) {
				p.UID, p.Name, p.Spec.ServiceAccountName = uid, string(uid), account
				p.Spec.Containers[0].Image = "example.com/app:1"
			})
		}
		w.syncAll(pod("one", "robot"))
		fails := func(account types.UID) {
			source.found, source.err = []pods.ImageCredential{{ServiceAccount: account, Missing: true}}, errors.New("the plugin is broken")
		}
		fails("sa-1")
		two := pod("two", "robot")
		w.syncAll(two)
		w.wantState(two, "app:running")
		if got := w.users(); got != "account" {
			t.Errorf("9.9: of the same account: pulled as %q", got)
		}
		fails("sa-2")
		w.syncAll(pod("three", "other"))
		if got := w.users(); got != "account -" {
			t.Errorf("9.9: of another account: pulled as %q", got)
		}
	})
}

// spec/runtime.md 9.9, 10.6: an image pulled with the credential of a service account is for pods of
// that account; one pulled with the node's is for all.
func TestImageOfAServiceAccountIsItsPodsAlone(t *testing.T) {
	for _, tc := range []struct {
		name       string
		credential pods.ImageCredential
		want       string // who pulled in the end
	}{
		{"the account's", pods.ImageCredential{Username: "account", Password: "p", ServiceAccount: "sa-1"}, "account -"},
		{"the node's", pods.ImageCredential{Username: "node", Password: "p"}, "node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &cloud{found: []pods.ImageCredential{tc.credential}}
				w := newWorld(t, nil, func(o *pods.Options) { o.ImagePull.Credentials = source })
				pod := func(uid types.UID, account string) *v1.Pod {
					return newPod(func(p *v1.Pod) {
						p.UID, p.Name, p.Spec.ServiceAccountName = uid, string(uid), account
						p.Spec.Containers[0].Image = "example.com/app:1"
					})
				}
				first, second, other := pod("one", "robot"), pod("two", "robot"), pod("three", "other")
				w.syncAll(first)
				w.syncAll(second)
				source.found = nil
				w.syncAll(other)
				if got := w.users(); got != tc.want {
					t.Errorf("pulled as %q, want %q", got, tc.want)
				}
			})
		})
	}
}
