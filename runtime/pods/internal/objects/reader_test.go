package objects_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/objects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source counts what it is asked for.
type source struct {
	calls int
	err   error
}

func (s *source) GetConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	s.calls++
	return &v1.ConfigMap{}, s.err
}

func (s *source) GetSecret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	s.calls++
	if namespace != "ns" {
		return nil, fmt.Errorf("asked for %s/%s", namespace, name)
	}
	return nil, s.err
}

// Each object is read once, whatever came of it.
func TestEachObjectIsReadOnce(t *testing.T) {
	s := &source{err: errors.New("down")}
	r := objects.NewReader(s, "ns")
	for range 3 {
		_, err1 := r.ConfigMap(t.Context(), "a")
		_, err2 := r.Secret(t.Context(), "a")
		for _, err := range []error{err1, err2} {
			if err == nil || objects.IsNotFound(err) || !strings.Contains(err.Error(), "ns/a") || !strings.Contains(err.Error(), "down") {
				t.Errorf("err %v", err)
			}
		}
	}
	if s.calls != 2 {
		t.Errorf("%d calls, want 2", s.calls)
	}
}

// spec/runtime.md 11.2: what says that an object does not exist.
func TestNotFound(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "a")
	for name, s := range map[string]objects.Getter{
		"no source":       nil,
		"nil object":      &source{},
		"class":           &source{err: fmt.Errorf("x: %w", runtime.ErrNotFound)},
		"client":          &source{err: gone},
		"client, wrapped": &source{err: fmt.Errorf("x: %w", gone)},
	} {
		if _, err := objects.NewReader(s, "ns").Secret(t.Context(), "a"); !objects.IsNotFound(err) || !strings.Contains(err.Error(), "secret ns/a") {
			t.Errorf("%s: %v", name, err)
		}
	}
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Resource: "secrets"}, "a", "404 page not found", 0, true)
	if objects.IsNotFound(page) {
		t.Error("the page of a load balancer counts as the API server's word")
	}
	if objects.IsNotFound(nil) || objects.IsNotFound(apierrors.NewForbidden(schema.GroupResource{}, "a", nil)) {
		t.Error("not every error means that the object does not exist")
	}
}
