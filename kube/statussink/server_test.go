package statussink

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// server answers requests about pods as an API server does, without a network: it is the
// transport of a client.
type server struct {
	mu      sync.Mutex
	version int
	pods    map[types.NamespacedName]*v1.Pod
	stored  map[types.UID][]v1.PodStatus
	calls   []string
	bodies  []string
	// fault, if not nil, may answer in place of the server, or wait. before is called by a
	// call before it has any effect, without the lock.
	fault  func(r *http.Request) *http.Response
	before func(call string)
	// authorizer makes the server refuse what the node authorizer refuses: a node may read and write
	// only its own pods, and a pod that does not exist is not one of them.
	authorizer bool
	// lost makes calls take effect although their answers never arrive.
	lost bool
}

func newServer() *server {
	return &server{pods: map[types.NamespacedName]*v1.Pod{}, stored: map[types.UID][]v1.PodStatus{}}
}

func (s *server) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	return clientOf(t, s)
}

func clientOf(t *testing.T, transport http.RoundTripper) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: transport, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// put makes a pod exist as another client of the server would.
func (s *server) put(pod *v1.Pod) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod = pod.DeepCopy()
	s.version++
	pod.ResourceVersion = strconv.Itoa(s.version)
	s.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
	return pod.DeepCopy()
}

func (s *server) pod(namespace, name string) *v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[types.NamespacedName{Namespace: namespace, Name: name}].DeepCopy()
}

// edit changes a pod's status as another client does.
func (s *server) edit(namespace, name string, f func(*v1.Pod)) *v1.Pod {
	pod := s.pod(namespace, name)
	f(pod)
	return s.put(pod)
}

func (s *server) remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	delete(s.pods, types.NamespacedName{Namespace: namespace, Name: name})
}

// statuses returns what was stored for a UID, oldest first.
func (s *server) statuses(uid types.UID) []v1.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]v1.PodStatus(nil), s.stored[uid]...)
}

// took returns the calls since the last took, as "METHOD name".
func (s *server) took() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls, s.bodies = nil, nil
	return strings.Join(calls, ", ")
}

// body returns the body of the latest call.
func (s *server) body() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[len(s.bodies)-1]
}

func (s *server) setFault(f func(r *http.Request) *http.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// RoundTrip implements [http.RoundTripper].
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	call := r.Method + " " + path[len(path)-1]
	if len(path) > 2 {
		call = r.Method + " " + strings.Join(path[2:], "/")
	}
	s.mu.Lock()
	fault, before, lost := s.fault, s.before, s.lost
	s.calls, s.bodies = append(s.calls, call), append(s.bodies, string(body))
	s.mu.Unlock()
	if before != nil {
		before(call)
	}
	if fault != nil {
		if answer := fault(r); answer != nil {
			return answer, nil
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer := s.answer(r, path, body)
	if lost {
		return nil, io.ErrUnexpectedEOF
	}
	return answer, nil
}

func (s *server) answer(r *http.Request, path []string, body []byte) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPost {
		return s.create(body)
	}
	key := types.NamespacedName{Namespace: path[0], Name: path[2]}
	pod := s.pods[key]
	if s.authorizer && (pod == nil && r.Method == http.MethodGet || pod != nil && pod.Spec.NodeName != "n1") {
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no relationship found between node n1 and this object", 0)
	}
	if pod == nil {
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "pods "+key.Name+" not found", 0)
	}
	switch r.Method {
	case http.MethodGet:
		return answer(http.StatusOK, pod)
	case http.MethodPatch:
		return s.patch(r, key, pod, body)
	case http.MethodDelete:
		return s.delete(key, pod, body)
	}
	return failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method, 0)
}

func (s *server) create(body []byte) *http.Response {
	pod := &v1.Pod{}
	if err := json.Unmarshal(body, pod); err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), 0)
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if s.pods[key] != nil {
		return failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, "pods "+key.Name+" already exists", 0)
	}
	s.version++
	pod.UID = types.UID(fmt.Sprint("made-", s.version))
	pod.ResourceVersion = strconv.Itoa(s.version)
	s.pods[key] = pod
	return answer(http.StatusCreated, pod)
}

// patch follows what a real server does: another life's UID is an invalid change of an
// immutable field, another resourceVersion a conflict, and only the status is taken.
func (s *server) patch(r *http.Request, key types.NamespacedName, pod *v1.Pod, body []byte) *http.Response {
	if got := r.Header.Get("Content-Type"); got != string(types.StrategicMergePatchType) {
		return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, got, 0)
	}
	old, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(old, body, &v1.Pod{})
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), 0)
	}
	changed := &v1.Pod{}
	if err := json.Unmarshal(merged, changed); err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), 0)
	}
	switch {
	case changed.ResourceVersion != pod.ResourceVersion:
		return failure(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified", 0)
	case changed.UID != pod.UID:
		return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "metadata.uid: field is immutable", 0)
	case changed.Status.PodIP == "bad":
		return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "status.podIPs: must be an IP address", 0)
	}
	next := pod.DeepCopy()
	next.Status = changed.Status
	s.version++
	next.ResourceVersion = strconv.Itoa(s.version)
	s.pods[key] = next
	s.stored[pod.UID] = append(s.stored[pod.UID], next.Status)
	return answer(http.StatusOK, next)
}

func (s *server) delete(key types.NamespacedName, pod *v1.Pod, body []byte) *http.Response {
	options := metav1.DeleteOptions{}
	if err := json.Unmarshal(body, &options); err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), 0)
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != pod.UID {
		return failure(http.StatusConflict, metav1.StatusReasonConflict, "the UID in the precondition is another", 0)
	}
	if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds != 0 {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the test expects grace 0", 0)
	}
	s.version++
	delete(s.pods, key)
	return answer(http.StatusOK, pod)
}

func answer(code int, object any) *http.Response {
	body, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	// An object of the API names its kind.
	if pod, ok := object.(*v1.Pod); ok {
		named := pod.DeepCopy()
		named.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		if body, err = json.Marshal(named); err != nil {
			panic(err)
		}
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}

// failure is a Status of the API; retryAfter in seconds, if not 0, is in it and in the header.
func failure(code int, reason metav1.StatusReason, message string, retryAfter int) *http.Response {
	r := answer(code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reason, Message: message, Code: int32(code),
		Details: &metav1.StatusDetails{RetryAfterSeconds: int32(retryAfter)},
	})
	if retryAfter > 0 {
		r.Header.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	return r
}

// busy is what a server says that has too many requests in flight: no Status, but a header.
func busy(retryAfter int) *http.Response {
	r := failure(http.StatusTooManyRequests, "", "", retryAfter)
	r.Header.Set("Content-Type", "text/plain")
	r.Body = io.NopCloser(strings.NewReader("Too many requests, please try again later.\n"))
	return r
}

// page is what something in front of a server says.
func page(code int) *http.Response {
	r := failure(code, "", "", 0)
	r.Header.Set("Content-Type", "text/plain")
	r.Body = io.NopCloser(strings.NewReader("404 page not found\n"))
	return r
}

// hang answers only when the request is given up.
func hang(r *http.Request) *http.Response {
	<-context.Context(r.Context()).Done()
	return nil
}
