package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// KZ1: an answer that quotes the request that failed does not show the credentials in it.
func TestFailuresDoNotShowCredentials(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError","message":"cannot do %s for %s"}`, r.URL.Path, r.Header["Authorization"])
	}))
	defer server.Close()
	for name, config := range map[string]*rest.Config{
		"token":    {Host: server.URL, BearerToken: "opensesame"},
		"password": {Host: server.URL, Username: "joe", Password: "opensesame"},
	} {
		config, dialer := dialed(config)
		c, err := newClients(rest.CopyConfig(config), dialer)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.all.CoreV1().Nodes().Get(t.Context(), "edge-1", metav1.GetOptions{})
		hidden(t, name, err)
		requests, err := (&bootstrapping{}).requests(config, dialer)
		if err != nil {
			t.Fatal(err)
		}
		_, err = requests.Get(t.Context(), "csr-1", metav1.GetOptions{})
		hidden(t, name+", bootstrap", err)
		dialer.CloseAll()
	}
}

// hidden fails the test unless an error has what the server said, without the credentials.
func hidden(t *testing.T, name string, err error) {
	t.Helper()
	for _, secret := range []string{"opensesame", "am9lOm9wZW5zZXNhbWU="} {
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "cannot do /api") || !strings.Contains(err.Error(), "****") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
