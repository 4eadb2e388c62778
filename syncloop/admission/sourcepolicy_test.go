package admission_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/syncloop/admission"
)

func from(source string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": source} }
}

func prioritised(priority *int32, class string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Priority, p.Spec.PriorityClassName = priority, class }
}

// ephemeral adds a container that can have no resources of its own.
func ephemeral(p *v1.Pod) {
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
}

// wholePod sets requests of the pod as a whole.
func wholePod(p *v1.Pod) {
	p.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "300m")}
}

// TestBySource (PS4): a source's pods follow its policy, or the one for all other sources; a source
// without any policy may do everything.
func TestBySource(t *testing.T) {
	h, err := admission.BySource(map[string]admission.SourcePolicy{
		"tenant": {Namespaces: []string{"default"}, HighestPriority: ptr.To[int32](1000), MaxPods: 2, Requests: list("cpu", "1"), Security: admission.SecurityBaseline},
		"":       {HighestPriority: ptr.To[int32](0)},
		"own":    {},
	})
	if err != nil {
		t.Fatal(err)
	}
	modest := requests("cpu", "300m")
	elsewhere := func(p *v1.Pod) { p.Namespace = "kube-system" }
	pods := func(n int, source string) (out []*v1.Pod) {
		for range n {
			out = append(out, pod("other", from(source), modest))
		}
		return out
	}
	for name, tc := range map[string]struct {
		pod    *v1.Pod
		others []*v1.Pod
		reason string
		says   string
	}{
		"all is well":               {pod: pod("p", from("tenant"), modest)},
		"another namespace":         {pod("p", from("tenant"), modest, elsewhere), nil, admission.ReasonSourcePolicy, `namespace "kube-system", only in ["default"]`},
		"the highest priority":      {pod: pod("p", from("tenant"), modest, prioritised(ptr.To[int32](1000), ""))},
		"a higher one":              {pod("p", from("tenant"), modest, prioritised(ptr.To[int32](1001), "")), nil, admission.ReasonSourcePolicy, "priority 1001, the highest is 1000"},
		"a critical class":          {pod("p", from("tenant"), modest, prioritised(nil, "system-node-critical")), nil, admission.ReasonSourcePolicy, `priority 2000001000 (class "system-node-critical")`},
		"the other critical class":  {pod("p", from("tenant"), modest, prioritised(nil, "system-cluster-critical")), nil, admission.ReasonSourcePolicy, "priority 2000000000"},
		"a class that is a name":    {pod: pod("p", from("tenant"), modest, prioritised(nil, "gold"))},
		"no request":                {pod("p", from("tenant")), nil, admission.ReasonSourcePolicy, "must request cpu"},
		"a request of nothing":      {pod("p", from("tenant"), requests("cpu", "0")), nil, admission.ReasonSourcePolicy, "must request cpu"},
		"an init container without": {pod("p", from("tenant"), modest, initial(false)), nil, admission.ReasonSourcePolicy, "must request cpu"},
		"an ephemeral container":    {pod("p", from("tenant"), modest, ephemeral), nil, admission.ReasonSourcePolicy, "must request cpu"},
		"one below a pod's request": {pod: pod("p", from("tenant"), modest, wholePod, ephemeral)},
		"a security level":          {pod("p", from("tenant"), modest, hostNetwork), nil, admission.ReasonPodSecurity, "hostNetwork=true"},
		"one of two":                {pod: pod("p", from("tenant"), modest), others: pods(1, "tenant")},
		"the third":                 {pod("p", from("tenant"), modest), pods(2, "tenant"), "OutOfpods", `Source "tenant" has its 2 pods already`},
		"pods of others":            {pod: pod("p", from("tenant"), modest), others: pods(5, "own")},
		"too much together":         {pod("p", from("tenant"), requests("cpu", "800m")), pods(1, "tenant"), "OutOfcpu", "requested: 800m, used: 300m, limit: 1"},
		"a source without a policy": {pod("p", from("web"), hostNetwork, prioritised(ptr.To[int32](1), "")), nil, admission.ReasonSourcePolicy, `source "web" may not run pods of priority 1`},
		"its pods are not counted":  {pod: pod("p", from("web"), hostNetwork), others: pods(5, "web")},
		"everything allowed":        {pod: pod("p", from("own"), hostNetwork, elsewhere, prioritised(nil, "system-node-critical")), others: pods(5, "own")},
	} {
		v := h.Admit(admission.Request{Pod: tc.pod, Others: slices.Values(tc.others)})
		if v.Reason != tc.reason || !strings.Contains(v.Message, tc.says) {
			t.Errorf("%s: %+v, want %s %q", name, v, tc.reason, tc.says)
		}
		if review := h.Review(tc.pod); len(tc.others) == 0 && review != v || len(tc.others) > 0 && !review.Admitted() {
			t.Errorf("%s: reviewed as %+v", name, review)
		}
		if room := strings.HasPrefix(tc.reason, "OutOf"); v.LacksRoom() != room {
			t.Errorf("%s: lacks room: %t", name, v.LacksRoom())
		}
	}
}

// TestBySourceNamesEveryMistake: the error lists everything that is wrong with any policy.
func TestBySourceNamesEveryMistake(t *testing.T) {
	_, err := admission.BySource(map[string]admission.SourcePolicy{"a": {Security: "strict"}, "api": {OwnUIDs: true}, "b": {Requests: list("cpu", "-1")}})
	if err == nil || !strings.Contains(err.Error(), `policy of source "a": there is no Pod Security level "strict"`) || !strings.Contains(err.Error(), `policy of source "b": requests of -1 cpu`) ||
		!strings.Contains(err.Error(), `policy of source "api": OwnUIDs`) {
		t.Error(err)
	}
}

// TestNoChangeRequestsMore (PS5): no change makes a pod request more of a bounded resource than
// when it was counted.
func TestNoChangeRequestsMore(t *testing.T) {
	h, err := admission.BySource(map[string]admission.SourcePolicy{"tenant": {Requests: list("cpu", "1")}})
	if err != nil {
		t.Fatal(err)
	}
	review := admission.Reviews(h)
	asks := func(source, cpu string) *v1.Pod { return pod("p", from(source), requests("cpu", cpu, "memory", "1Gi")) }
	for to, allowed := range map[string]bool{"300m": true, "200m": true, "0.3": true, "301m": false, "100": false} {
		if err := review(asks("tenant", "300m"), asks("tenant", to)); (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), "request more cpu") {
			t.Errorf("from 300m to %s: %v", to, err)
		}
	}
	if err := review(asks("own", "300m"), asks("own", "100")); err != nil {
		t.Errorf("a source without a policy: %v", err)
	}
}

// TestPodWaitsForThoseOfItsSourceThatStop (PS4): a source never runs more than its policy allows, so
// a pod waits for the places of pods that are being stopped. It is refused if the pods that stay
// leave no room.
func TestPodWaitsForThoseOfItsSourceThatStop(t *testing.T) {
	var departing []*v1.Pod
	h, err := admission.BySource(map[string]admission.SourcePolicy{"tenant": {MaxPods: 2, Requests: list("cpu", "1")}})
	if err != nil {
		t.Fatal(err)
	}
	h = h.Counting(func() []*v1.Pod { return departing })
	named := func(name, source, cpu string, edit ...func(*v1.Pod)) *v1.Pod {
		p := pod("uid-"+name, append(edit, from(source), requests("cpu", cpu))...)
		p.Name = name
		return p
	}
	slow := func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](100) }
	leaves, stays := named("leaves", "tenant", "400m", slow), named("stays", "tenant", "400m")
	for name, tc := range map[string]struct {
		pod               *v1.Pod
		others, departing []*v1.Pod
		waits             bool
		reason            string
	}{
		"room beside it":                 {pod: named("new", "tenant", "500m"), departing: []*v1.Pod{leaves}},
		"its number":                     {pod: named("new", "tenant", "100m"), others: []*v1.Pod{stays}, departing: []*v1.Pod{leaves}, waits: true},
		"its requests":                   {pod: named("new", "tenant", "700m"), departing: []*v1.Pod{leaves}, waits: true},
		"one that is desired still":      {pod: named("new", "tenant", "700m"), others: []*v1.Pod{leaves}, departing: []*v1.Pod{leaves}, waits: true},
		"those that stay have too much":  {pod: named("new", "tenant", "700m"), others: []*v1.Pod{stays}, departing: []*v1.Pod{leaves}, reason: "OutOfcpu"},
		"pods of others":                 {pod: named("new", "tenant", "700m"), departing: []*v1.Pod{named("other", "own", "4")}},
		"its own earlier life":           {pod: named("leaves", "tenant", "700m"), departing: []*v1.Pod{leaves}},
		"the pod of its name before it":  {pod: named("leaves", "tenant", "700m", func(p *v1.Pod) { p.UID = "uid-next" }), departing: []*v1.Pod{leaves}},
		"a source without such a policy": {pod: named("new", "own", "700m"), departing: []*v1.Pod{leaves}},
	} {
		departing = tc.departing
		r := admission.Request{Pod: tc.pod, Others: slices.Values(tc.others)}
		v, err := h.Ask(r)
		if (err != nil) != tc.waits || v.Reason != tc.reason {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		var patient interface{ Patience() time.Duration }
		if tc.waits && (!strings.Contains(err.Error(), `pods of source "tenant" that are being stopped (1)`) || !errors.As(err, &patient) || patient.Patience() != 150*time.Second) {
			t.Errorf("%s: %v", name, err)
		}
		if direct := h.Admit(r); direct.Admitted() == (tc.waits || tc.reason != "") {
			t.Errorf("%s: Admit says %+v", name, direct)
		}
	}
}

// TestLaterPodLeavesEarlierOnesTheirRoom (PS4): a pod that fits beside those that stop waits nevertheless if an earlier one of
// its source, which waits for them, would have no room then.
func TestLaterPodLeavesEarlierOnesTheirRoom(t *testing.T) {
	h, err := admission.BySource(map[string]admission.SourcePolicy{"tenant": {Requests: list("cpu", "5")}, "other": {Requests: list("cpu", "5")}})
	if err != nil {
		t.Fatal(err)
	}
	named := func(name, source, cpu string) *v1.Pod {
		p := pod("uid-"+name, from(source), requests("cpu", cpu))
		p.Name = name
		return p
	}
	stays, stops, first, second := named("stays", "tenant", "1"), named("stops", "tenant", "2"), named("first", "tenant", "3500m"), named("second", "tenant", "1")
	departing := []*v1.Pod{stops}
	var errs map[types.UID]error
	h = h.Counting(func() []*v1.Pod { return departing }).InOrder(func(uid types.UID) iter.Seq2[*v1.Pod, error] {
		return func(yield func(*v1.Pod, error) bool) {
			for _, p := range []*v1.Pod{first, second} {
				if p.UID == uid || !yield(p, errs[p.UID]) {
					return
				}
			}
		}
	})
	ask := func(p *v1.Pod) string {
		v, err := h.Ask(admission.Request{Pod: p, Others: slices.Values([]*v1.Pod{stays})})
		if err == nil {
			return v.Reason
		}
		errs[p.UID] = fmt.Errorf("no verdict: %w", err)
		return err.Error()
	}
	errs = map[types.UID]error{}
	if got := ask(second); got != "" {
		t.Errorf("none waits: %q", got)
	}
	errs[first.UID] = errors.New("another reason")
	if got := ask(second); got != "" {
		t.Errorf("an earlier one waits for something else: %q", got)
	}
	if got := ask(first); !strings.Contains(got, "that are being stopped (1)") {
		t.Errorf("the first: %q", got)
	}
	if got := ask(named("small", "tenant", "500m")); got != "" {
		t.Errorf("one that leaves it its room: %q", got)
	}
	for range 2 {
		if got := ask(second); !strings.Contains(got, `it waits for earlier pods of source "tenant" that wait for others to be stopped (1)`) {
			t.Errorf("the second: %q", got)
		}
	}
	for p, want := range map[*v1.Pod]string{
		named("third", "tenant", "100m"): "(2)", named("big", "tenant", "4500m"): "OutOfcpu",
		named("stops", "tenant", "3"): "", // it replaces the one that stops
		named("else", "other", "5"):   "",
	} {
		if got := ask(p); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", p.Name, got, want)
		}
	}
	departing = nil
	if got := ask(first); got != "" {
		t.Errorf("the first at the end: %q", got)
	}
}

// TestNothingIsRequestedUnseen (PS4, PS5): however a pod asks for resources, it counts for what it
// could use: a small request of the pod as a whole hides no containers, and every init container,
// sidecar, overhead, storage and device counts. An in-place resize cannot exceed it either.
func TestNothingIsRequestedUnseen(t *testing.T) {
	const gpu = "example.com/gpu"
	h, err := admission.BySource(map[string]admission.SourcePolicy{"tenant": {Requests: list("cpu", "1", "memory", "1Gi", "ephemeral-storage", "1Gi", gpu, "1")}})
	if err != nil {
		t.Fatal(err)
	}
	modest := list("cpu", "100m", "memory", "100Mi", "ephemeral-storage", "100Mi", gpu, "1")
	asks := func(edit ...func(*v1.Pod)) *v1.Pod {
		p := pod("p", append([]func(*v1.Pod){from("tenant")}, edit...)...)
		p.Spec.Containers[0].Resources.Requests = modest.DeepCopy()
		return p
	}
	with := func(p *v1.Pod, name v1.ResourceName, q string) *v1.Pod {
		p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(q)
		return p
	}
	level := func(p *v1.Pod) *v1.Pod {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "1m", "memory", "1", "ephemeral-storage", "1", gpu, "1")}
		return p
	}
	beside := func(p *v1.Pod, sidecar bool, q string) *v1.Pod {
		c := v1.Container{Name: "side", Resources: v1.ResourceRequirements{Requests: modest.DeepCopy()}}
		delete(c.Resources.Requests, gpu)
		c.Resources.Limits = list("cpu", q, gpu, "1")
		delete(c.Resources.Requests, v1.ResourceCPU)
		if sidecar {
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = []v1.Container{c}
		return p
	}
	overhead := func(p *v1.Pod, q string) *v1.Pod { p.Spec.Overhead = list("cpu", q); return p }
	for name, tc := range map[string]struct {
		pod    *v1.Pod
		reason string
	}{
		"all is well":               {asks(), ""},
		"a pod level below":         {level(with(asks(), "cpu", "64")), "OutOfcpu"},
		"a pod level below: memory": {level(with(asks(), "memory", "64Gi")), "OutOfmemory"},
		"a device":                  {with(asks(), gpu, "2"), "OutOf" + gpu},
		"storage":                   {with(asks(), "ephemeral-storage", "2Gi"), "OutOfephemeral-storage"},
		"an init container":         {beside(asks(), false, "2"), "OutOfcpu"},
		"init containers go first":  {beside(asks(), false, "950m"), ""},
		"a sidecar runs beside":     {beside(asks(), true, "950m"), "OutOfcpu"},
		"a sidecar's limit":         {beside(asks(), true, "100m"), "OutOf" + gpu},
		"overhead":                  {overhead(asks(), "950m"), "OutOfcpu"},
		"overhead of a pod level":   {overhead(level(asks()), "950m"), "OutOfcpu"},
	} {
		if v := h.Admit(admission.Request{Pod: tc.pod}); v.Reason != tc.reason {
			t.Errorf("%s: %+v, want %s", name, v, tc.reason)
		}
	}
	review := admission.Reviews(h)
	for name, to := range map[string]*v1.Pod{
		"a resize":                  with(asks(), "cpu", "101m"),
		"a pod level that hides it": level(with(asks(), "cpu", "64")),
		"a sidecar":                 beside(asks(), true, "100m"),
		"overhead":                  overhead(asks(), "1m"),
	} {
		if err := review(asks(), to); err == nil || !strings.Contains(err.Error(), "request more") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
