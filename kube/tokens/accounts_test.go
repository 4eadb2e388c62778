package tokens

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// KK9: a service account is read once in 10 s, believed for an hour while the API server is away,
// also behind a 404 page, and not at all once it does not exist.
func TestServiceAccountIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "one"}})
		reads, away, page := 0, false, false
		api.PrependReactor("get", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
			reads++
			if page {
				return true, nil, apierrors.NewGenericServerResponse(404, "get", v1.Resource("serviceaccounts"), "robot", "404 page not found", 0, true)
			}
			return away, nil, errors.New("connection refused")
		})
		accounts, err := NewAccounts(Options{Client: api})
		if err != nil {
			t.Fatal(err)
		}
		read := func(want string, wantReads int) {
			t.Helper()
			got, err := accounts.ServiceAccount(t.Context(), "ns", "robot")
			switch {
			case want != "" && (err != nil || string(got.UID) != want):
				t.Errorf("read %v, %v; want %s", got, err, want)
			case want == "" && err == nil:
				t.Errorf("read %v", got)
			}
			if reads != wantReads {
				t.Errorf("%d requests, want %d", reads, wantReads)
			}
		}
		pass := func(d time.Duration) { <-time.After(d) }
		read("one", 1)
		pass(9 * time.Second)
		read("one", 1)
		away = true
		pass(time.Second)
		read("one", 2)
		pass(time.Hour)
		read("", 3)
		away = false
		pass(time.Minute)
		read("one", 4)
		page = true
		pass(10 * time.Second)
		read("one", 5)
		page = false
		pass(2 * time.Second)
		if err := api.Tracker().Delete(v1.SchemeGroupVersion.WithResource("serviceaccounts"), "ns", "robot"); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		read("", 6)
		if _, err := accounts.ServiceAccount(t.Context(), "ns", "robot"); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: %v", err)
		}
	})
}
