package podinfo

import (
	"bytes"
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// FuzzQuantity: what may be parsed is parsed quickly, and what may be added up is added up quickly;
// if this target hangs, it has found text that breaks this (spec/syncloop.md D10).
func FuzzQuantity(f *testing.F) {
	for _, text := range []string{"1", "100m", "5Ei", "1e3", "1E", "-1n", "1e-999999999", "1e999999999", "0.0000000001", "9223372036854775808", "+.5k", "1e+-3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !ReadableQuantity(text) {
			return
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return
		}
		if !BoundedQuantity(q) {
			t.Fatalf("%q may be read, and not be added up", text)
		}
		sum := resource.MustParse("1")
		sum.Add(q)
		sum.Sub(q)
		if one := resource.MustParse("1"); sum.Cmp(one) != 0 {
			t.Errorf("%q added to 1 and taken away leaves %s", text, sum.String())
		}
		_, _ = q.Value(), q.MilliValue()
	})
}

// FuzzResources adds up the resources of a pod spec as it arrives: a total is never less than
// an app container's part, the class fits the amounts, and the pod does not change
// (spec/runtime.md 13.2-13.4).
func FuzzResources(f *testing.F) {
	for _, text := range []string{
		`{"containers":[{"name":"c","resources":{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"1"}}}]}`,
		`{"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"9E"}}}],"containers":[{"name":"c","resources":{"limits":{"cpu":"9E"}}}]}`,
		`{"overhead":{"cpu":"1n","example.com/x":"1e18"},"containers":[{"name":"c","resources":{"requests":{"cpu":"0.0000000001"}}}]}`,
		`{"resources":{"requests":{"memory":"100E"},"limits":{"memory":"1e300"}},"containers":[{"name":"c"},{"name":"d","resources":{"requests":{"memory":"9223372036854775807"}}}]}`,
		`{"containers":[{"name":"c","resources":{"requests":{"cpu":"-1","memory":"-9E"}}}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// The sources refuse such quantities unread; a backslash could hide one here.
		for word := range bytes.SplitSeq(text, []byte(`"`)) {
			if !ReadableQuantity(string(word)) || bytes.Contains(word, []byte(`\`)) {
				t.Skip("unreadable")
			}
		}
		var pod v1.Pod
		if json.Unmarshal(text, &pod.Spec) != nil {
			t.Skip("no pod spec")
		}
		before := pod.DeepCopy()
		class, all := QoS(&pod), Requests(&pod)
		for name := range all {
			checkTotal(t, &pod, name)
			limit, declared := Limit(&pod, name), DeclaredLimit(&pod, name)
			_, _ = limit.MilliValue(), declared.String()
		}
		if _, ok := all[v1.ResourceCPU]; !ok && class == v1.PodQOSGuaranteed {
			t.Errorf("%s without CPU", class)
		}
		if a, b := marshal(t, before), marshal(t, &pod); a != b {
			t.Errorf("the pod changed from\n%s\nto\n%s", a, b)
		}
	})
}

// checkTotal compares a total of containers that request no less than nothing with its parts.
func checkTotal(t *testing.T, pod *v1.Pod, name v1.ResourceName) {
	positive := pod.Spec.Resources == nil
	each(&pod.Spec, func(c *v1.Container) {
		q := ContainerRequest(&c.Resources, name)
		positive = positive && q.Sign() >= 0
	})
	total := RequestWithoutOverhead(pod, name)
	for i := range pod.Spec.Containers {
		if q := ContainerRequest(&pod.Spec.Containers[i].Resources, name); positive && total.Cmp(q) < 0 {
			t.Errorf("%s: %s in all is less than %s of container %d", name, total.String(), q.String(), i)
		}
	}
}

func marshal(t *testing.T, pod *v1.Pod) string {
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
