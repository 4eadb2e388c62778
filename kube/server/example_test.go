package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podwright/podwright/kube/server"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// engine stands for a *podwright.Engine.
type engine struct{ pod v1.Pod }

func (e engine) Pods() []v1.Pod                          { return []v1.Pod{e.pod} }
func (e engine) Pod(uid types.UID) (*v1.Pod, bool)       { return &e.pod, uid == e.pod.UID }
func (e engine) PodNamed(_, name string) (*v1.Pod, bool) { return &e.pod, name == e.pod.Name }
func (e engine) Healthy() error                          { return nil }

func (e engine) ContainerLog(_ context.Context, _ types.UID, container string, _ containerlog.Options, w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s is ready\n", container)
	return err
}

// A log is shown to a user whom the API server knows and allows to, and to no other.
func Example() {
	api := fake.NewClientset()
	api.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authentication.TokenReview)
		review.Status.Authenticated = review.Spec.Token == "jane's"
		review.Status.User.Username = "jane"
		return true, review, nil
	})
	api.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorization.SubjectAccessReview)
		review.Status.Allowed = review.Spec.User == "jane"
		return true, review, nil
	})
	s, err := server.New(server.Options{
		Node: "n1",
		Engine: engine{v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}},
		}},
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }, // httptest has its own
		Tokens:      api.AuthenticationV1(), Access: api.AuthorizationV1(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	listener := httptest.NewTLSServer(s.Handler())
	defer listener.Close()
	for _, token := range []string{"jane's", "another"} {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, listener.URL+"/containerLogs/default/web/app", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := listener.Client().Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Printf("%d %s", response.StatusCode, body)
	}
	// Output:
	// 200 app is ready
	// 401 Unauthorized
}
