//go:build apiserver

package tokens_test

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/apitest"
	"github.com/podwright/podwright/kube/tokens"
)

// KK1, KK3, KK4, KW4: on a real API server, as system:node. Its tokens are for the service account, bound to
// the pod and for the audience of its volume; another audience is refused, and so is another life.
func TestAPIServerTokens(t *testing.T) {
	cluster := apitest.Start(t, apitest.Options{})
	admin, node := kubernetes.NewForConfigOrDie(cluster.Admin()), kubernetes.NewForConfigOrDie(cluster.Node("edge-1"))
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "web"}
	_, err := admin.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}, metav1.CreateOptions{})
	check(err)
	_, err = admin.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	check(err)
	vault := projection("vault", 600)
	create := func() *v1.Pod {
		pod, err := admin.CoreV1().Pods(meta.Namespace).Create(ctx, &v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{
			NodeName: "edge-1", ServiceAccountName: "robot",
			Containers: []v1.Container{{Name: "app", Image: "example.com/app:1"}},
			Volumes: []v1.Volume{{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
				Sources: []v1.VolumeProjection{{ServiceAccountToken: vault}},
			}}}},
		}}, metav1.CreateOptions{})
		check(err)
		return pod
	}
	pod := create()
	source, err := tokens.New(tokens.Options{Client: node})
	check(err)
	// token repeats a request that the API server refuses until it knows of the pod.
	token := func(pod *v1.Pod, p *v1.ServiceAccountTokenProjection) (text string, err error) {
		limited, cancel := context.WithTimeout(ctx, patience.Of(20*time.Second))
		defer cancel()
		for {
			if text, err = source.Token(limited, pod, p); err == nil || timing.Sleep(limited, clock.RealClock{}, 200*time.Millisecond) != nil {
				return text, err
			}
		}
	}
	review := func(text string, audiences ...string) authenticationv1.TokenReviewStatus {
		r, err := admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: text, Audiences: audiences},
		}, metav1.CreateOptions{})
		check(err)
		return r.Status
	}
	for _, tc := range []struct {
		p         *v1.ServiceAccountTokenProjection
		audiences []string
	}{{projection("", 3607), nil}, {vault, []string{"vault"}}} {
		text, err := token(pod, tc.p)
		check(err)
		status := review(text, tc.audiences...)
		if !status.Authenticated || status.User.Username != "system:serviceaccount:default:robot" ||
			status.User.Extra["authentication.kubernetes.io/pod-uid"][0] != string(pod.UID) {
			t.Errorf("KK1: audience %q: %+v", tc.p.Audience, status)
		}
	}
	short, cancel := context.WithTimeout(ctx, patience.Of(3*time.Second))
	defer cancel()
	if _, err := source.Token(short, pod, projection("other", 600)); err == nil || !strings.Contains(err.Error(), "not found in pod spec volume") {
		t.Errorf("KK3: another audience: %v", err)
	}
	old, err := token(pod, vault)
	check(err)
	check(admin.CoreV1().Pods(meta.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	next := create()
	if text, err := token(next, vault); err != nil || text == old {
		t.Errorf("KK4: the next life has the token of the last: %v, err %v", text == old, err)
	}
	fresh, err := tokens.New(tokens.Options{Client: node})
	check(err)
	if _, err := fresh.Token(ctx, pod, vault); err == nil {
		t.Error("KK4: a token for a life that is over")
	} else {
		t.Logf("a life that is over: %v", err)
	}
	// The API server keeps its judgement of a token for 10 s.
	limited, cancel := context.WithTimeout(ctx, patience.Of(time.Minute))
	defer cancel()
	for review(old, "vault").Authenticated {
		if timing.Sleep(limited, clock.RealClock{}, time.Second) != nil {
			t.Fatal("KK4: the token of a life that is over is good")
		}
	}
}
