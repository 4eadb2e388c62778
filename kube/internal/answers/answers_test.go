package answers_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/kube/internal/answers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// over is a client's error after an answer.
func over(t *testing.T, code int, contentType, body string) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	return err
}

// TestAbsenceIsSaidByTheAPI: a 404 counts if it is an object of the API, whoever wraps it.
func TestAbsenceIsSaidByTheAPI(t *testing.T) {
	const said = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":"web","kind":"pods"},"code":404}`
	for name, c := range map[string]struct {
		err            error
		notFound, page bool
	}{
		"the API server":    {over(t, 404, "application/json", said), true, false},
		"wrapped":           {fmt.Errorf("read: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web")), true, false},
		"a page":            {over(t, 404, "text/plain; charset=utf-8", "404 page not found\n"), false, true},
		"a page of a proxy": {fmt.Errorf("read: %w", over(t, 404, "text/html", "<html>Not Found</html>")), false, true},
		"an empty answer":   {over(t, 404, "application/json", ""), false, true},
		"another object":    {over(t, 404, "application/json", `{"error":"no route"}`), false, true},
		"a bad gateway":     {over(t, 502, "text/html", "<html>Bad Gateway</html>"), false, true},
		"another refusal":   {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", nil), false, false},
		"no answer":         {errors.New("connection refused"), false, false},
		"no error":          {nil, false, false},
	} {
		if got := answers.NotFound(c.err); got != c.notFound {
			t.Errorf("%s: not found is %t: %v", name, got, c.err)
		}
		if got := answers.Page(c.err); got != c.page {
			t.Errorf("%s: page is %t: %v", name, got, c.err)
		}
	}
}

// TestRefusalsAreSaidByTheAPI: a 409 or 422 counts if it is an object of the API.
func TestRefusalsAreSaidByTheAPI(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	page := func(code int, verb string) error {
		return fmt.Errorf("%s: %w", verb, apierrors.NewGenericServerResponse(code, verb, pods, "web", "<html>", 0, true))
	}
	for name, c := range map[string]struct {
		is   func(error) bool
		said error
		page error
	}{
		"conflict": {answers.Conflict, apierrors.NewConflict(pods, "web", errors.New("UID")), page(409, "patch")},
		"exists":   {answers.AlreadyExists, apierrors.NewAlreadyExists(pods, "web"), page(409, "post")},
		"invalid":  {answers.Invalid, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil), page(422, "patch")},

		"forbidden":           {answers.Forbidden, apierrors.NewForbidden(pods, "web", nil), page(403, "patch")},
		"refused, forbidden":  {answers.Refused, apierrors.NewForbidden(pods, "web", nil), page(403, "patch")},
		"refused, no user":    {answers.Refused, apierrors.NewUnauthorized("expired"), page(401, "patch")},
		"refused, invalid":    {answers.Refused, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil), page(422, "patch")},
		"refused, unreadable": {answers.Refused, apierrors.NewBadRequest("no JSON"), page(400, "patch")},
	} {
		if !c.is(fmt.Errorf("write: %w", c.said)) || c.is(c.page) || c.is(nil) || c.is(errors.New("no answer")) {
			t.Errorf("%s: what the API says is %t, a page is %t", name, c.is(c.said), c.is(c.page))
		}
	}
}

// TestWaitIsWhatTheAnswerAsksFor: a reason that calls for a delay names none by itself.
func TestWaitIsWhatTheAnswerAsksFor(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"no error":          {nil, 0},
		"no answer":         {errors.New("connection refused"), 0},
		"overloaded":        {fmt.Errorf("write: %w", apierrors.NewTooManyRequests("slow down", 7)), 7 * time.Second},
		"without a time":    {apierrors.NewTooManyRequestsError("slow down"), 0},
		"a timeout":         {apierrors.NewServerTimeout(pods, "create", 3), 3 * time.Second},
		"a timeout at once": {apierrors.NewServerTimeout(pods, "create", 0), 0},
		"time runs back":    {apierrors.NewServerTimeout(pods, "create", -3), 0},
		"too long":          {apierrors.NewTooManyRequests("slow down", 1<<30), time.Minute},
		"a page":            {apierrors.NewGenericServerResponse(503, "get", pods, "web", "<html>", 5, true), 5 * time.Second},
	} {
		if got := answers.Wait(c.err, time.Minute); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
