package memoryapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podwright/podwright/internal/timing"
)

// resources are the kinds that the server knows, by their lower-case plural.
var resources = map[string]schema.GroupVersionKind{
	"pods":            {Version: "v1", Kind: "Pod"},
	"nodes":           {Version: "v1", Kind: "Node"},
	"services":        {Version: "v1", Kind: "Service"},
	"configmaps":      {Version: "v1", Kind: "ConfigMap"},
	"secrets":         {Version: "v1", Kind: "Secret"},
	"events":          {Version: "v1", Kind: "Event"},
	"serviceaccounts": {Version: "v1", Kind: "ServiceAccount"},
	"leases":          {Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	"runtimeclasses":  {Group: "node.k8s.io", Version: "v1", Kind: "RuntimeClass"},
}

// target is what the path of a request names.
type target struct {
	key
	kind        schema.GroupVersionKind
	subresource string
}

// targetOf parses a path such as /api/v1/namespaces/default/pods/web/status.
func targetOf(path string) (t target, known bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var group string
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default:
		return t, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&t.resource, &t.name, &t.subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	t.kind, known = resources[t.resource]
	return t, known && t.kind.Group == group
}

// request answers a request other than a watch.
func (s *Server) request(user string, r *http.Request) (code int, answer apiruntime.Object, err error) {
	t, known := targetOf(r.URL.Path)
	if !known {
		return 0, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "the server has no "+r.URL.Path, 0, false)
	}
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return 0, nil, err
		}
	}
	code = http.StatusOK
	switch {
	case r.Method == http.MethodGet && t.name != "":
		answer, err = s.get(user, t.key)
	case r.Method == http.MethodGet:
		answer, err = s.list(t, r.URL.Query().Get("fieldSelector"))
	case r.Method == http.MethodPost && t.subresource == "token":
		code = http.StatusCreated
		answer, err = s.issue(user, t.key, body)
	case r.Method == http.MethodPost:
		code = http.StatusCreated
		var o object
		if o, err = decode(body, t.kind); err == nil {
			t.name = o.GetName()
			o.SetNamespace(t.namespace)
			answer, err = s.create(user, t.key, o)
		}
	case r.Method == http.MethodPut:
		var o object
		if o, err = decode(body, t.kind); err == nil {
			answer, err = s.replace(user, t.key, func(last object) (object, error) { return t.keepOther(last, o), nil })
		}
	case r.Method == http.MethodPatch:
		answer, err = s.replace(user, t.key, func(last object) (object, error) {
			return t.patched(last, types.PatchType(r.Header.Get("Content-Type")), body)
		})
	case r.Method == http.MethodDelete:
		o := &metav1.DeleteOptions{}
		if len(body) > 0 {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, o)
		}
		if err == nil {
			answer, err = s.delete(user, t.key, o)
		}
	default:
		err = apierrors.NewMethodNotSupported(t.groupResource(), r.Method)
	}
	return code, answer, err
}

func (s *Server) get(user string, k key) (apiruntime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[k]
	if err := s.mayRead(user, k, o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, apierrors.NewNotFound(k.groupResource(), k.name)
	}
	return o, nil
}

// list returns a consistent list, whatever revision is requested.
func (s *Server) list(t target, selector string) (apiruntime.Object, error) {
	chosen, err := selectorOf(t, selector)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: t.kind.GroupVersion().String(), Kind: t.kind.Kind + "List"}}
	list.ResourceVersion = strconv.FormatInt(s.revision, 10)
	list.Items = []apiruntime.RawExtension{}
	for _, k := range s.keys() {
		if o := s.objects[k]; k.resource == t.resource && chosen(o) {
			list.Items = append(list.Items, apiruntime.RawExtension{Raw: encode(o, t.kind)})
		}
	}
	return list, nil
}

// decode decodes an object as clients send it, in JSON or protobuf.
func decode(body []byte, kind schema.GroupVersionKind) (object, error) {
	read, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, &kind, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o, ok := read.(object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a %T is no %s", read, kind.Kind))
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return o, nil
}

// encode encodes an object with its kind.
func encode(o apiruntime.Object, kind schema.GroupVersionKind) []byte {
	named := o.DeepCopyObject()
	named.GetObjectKind().SetGroupVersionKind(kind)
	text, err := json.Marshal(named)
	if err != nil {
		panic(err) // marshalling an object of the API never fails
	}
	return text
}

// patched returns an object with a patch applied.
func (t target) patched(last object, kind types.PatchType, patch []byte) (object, error) {
	if kind != types.StrategicMergePatchType {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", t.groupResource(), t.name, string(kind), 0, false)
	}
	old, err := json.Marshal(last)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(old, patch, last)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next, err := decode(merged, t.kind)
	if err != nil {
		return nil, err
	}
	return t.keepOther(last, next), nil
}

// keepOther restricts a write of the status to the status, and keeps the status out of every other
// write.
func (t target) keepOther(last, next object) object {
	if from := reflect.ValueOf(next).Elem().FieldByName("Status"); from.IsValid() {
		if t.subresource == "status" {
			last.SetResourceVersion(next.GetResourceVersion())
			last.SetUID(next.GetUID())
			reflect.ValueOf(last).Elem().FieldByName("Status").Set(from)
			return last
		}
		from.Set(reflect.ValueOf(last).Elem().FieldByName("Status"))
	}
	return next
}

// issue makes a token for a service account, bound to the pod that the request names.
func (s *Server) issue(node string, k key, body []byte) (apiruntime.Object, error) {
	wanted := &authenticationv1.TokenRequest{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, wanted); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	bound := wanted.Spec.BoundObjectRef
	if bound == nil || bound.Kind != "Pod" || wanted.Spec.ExpirationSeconds == nil {
		return nil, apierrors.NewBadRequest(errUnbound.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key{"pods", k.namespace, bound.Name}]
	if err := s.mayRead(node, key{"pods", k.namespace, bound.Name}, o); err != nil {
		return nil, apierrors.NewForbidden(k.groupResource(), k.name, err)
	}
	pod, ok := o.(*v1.Pod)
	switch {
	case !ok:
		return nil, apierrors.NewNotFound(v1.Resource("pods"), bound.Name)
	case s.objects[k] == nil:
		return nil, apierrors.NewNotFound(k.groupResource(), k.name)
	case pod.UID != bound.UID:
		return nil, apierrors.NewConflict(v1.Resource("pods"), bound.Name, errPrecondition)
	}
	until := s.clock.Now().Add(timing.Seconds(*wanted.Spec.ExpirationSeconds))
	wanted.Status = authenticationv1.TokenRequestStatus{
		Token: fmt.Sprintf("token of %s/%s for %s until %s", k.namespace, k.name, bound.UID, until.Format(time.TimeOnly)), ExpirationTimestamp: metav1.NewTime(until),
	}
	wanted.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}
	return wanted, nil
}

var errUnbound = errors.New("tokens are for pods, for some time")
