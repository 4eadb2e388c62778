package status

import (
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// leaves visits every settable leaf below v, growing pointers, slices and maps by
// one element if fill is set.
func leaves(v reflect.Value, path string, fill bool, visit func(path string, leaf reflect.Value)) {
	switch v.Interface().(type) {
	case metav1.Time, resource.Quantity:
		visit(path, v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if fill {
			v.Set(reflect.New(v.Type().Elem()))
		}
		leaves(v.Elem(), path, fill, visit)
	case reflect.Slice:
		if fill {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		leaves(v.Index(0), path+"[]", fill, visit)
	case reflect.Map:
		visit(path, v)
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, fill, visit)
		}
	default:
		visit(path, v)
	}
}

// change sets a leaf to its n-th value.
func change(t *testing.T, path string, leaf reflect.Value, n int64) {
	switch value := leaf.Addr().Interface().(type) {
	case *metav1.Time:
		value.Time = t0.Add(time.Duration(n) * time.Hour)
		return
	case *resource.Quantity:
		*value = *resource.NewQuantity(n, resource.DecimalSI)
		return
	case *v1.ResourceList:
		*value = v1.ResourceList{"example.com/gpu": *resource.NewQuantity(n, resource.DecimalSI)}
		return
	case *v1.PodConditionType:
		*value = v1.PodReady
		if n > 1 {
			*value = v1.PodInitialized
		}
		return
	}
	switch leaf.Kind() {
	case reflect.String:
		leaf.SetString(strings.Repeat("x", int(n)))
	case reflect.Bool:
		leaf.SetBool(n == 1)
	case reflect.Int, reflect.Int32, reflect.Int64:
		leaf.SetInt(n)
	case reflect.Map:
		m := reflect.MakeMap(leaf.Type())
		m.SetMapIndex(reflect.New(leaf.Type().Key()).Elem(), reflect.New(leaf.Type().Elem()).Elem())
		if n > 1 {
			m = reflect.MakeMap(leaf.Type())
		}
		leaf.Set(m)
	default:
		t.Fatalf("%s: a kind of field this test does not know: %s", path, leaf.Kind())
	}
}

// TestEqualSeesEveryField changes every field of the API type, one at a time: a
// field a new Kubernetes version adds fails here until it is compared or excused
// (spec/status.md 7.4).
func TestEqualSeesEveryField(t *testing.T) {
	full := &v1.PodStatus{}
	count := 0
	leaves(reflect.ValueOf(full).Elem(), "", true, func(path string, leaf reflect.Value) {
		change(t, path, leaf, 1)
		count++
	})
	if !equalStatus(full, full.DeepCopy(), 100) {
		t.Fatal("a copy is not equal")
	}
	excused := func(path string) bool {
		for _, p := range []string{
			".ResourceClaimStatuses", ".ExtendedResourceClaimStatus", ".NodeAllocatableResourceClaimStatuses", // 6.8
			".Conditions[].LastProbeTime", ".Conditions[].LastTransitionTime", ".Conditions[].ObservedGeneration",
		} {
			if strings.HasPrefix(path, p) {
				return true
			}
		}
		return false
	}
	for i := range count {
		other := full.DeepCopy()
		n, changed := 0, ""
		leaves(reflect.ValueOf(other).Elem(), "", false, func(path string, leaf reflect.Value) {
			if n == i {
				change(t, path, leaf, 2)
				changed = path
			}
			n++
		})
		if got, want := equalStatus(full, other, 100), excused(changed); got != want {
			t.Errorf("%s changed: equal is %t, want %t", changed, got, want)
		}
		if got, want := equalStatus(other, full, 100), excused(changed); got != want {
			t.Errorf("%s changed, other way round: equal is %t, want %t", changed, got, want)
		}
	}
}

// TestEqualSeesTheSpecOfARefusal: spec/status.md 7.4, edge case 29. The generation of a resize condition follows no other
// field: a second refusal in the same words has to be shown.
func TestEqualSeesTheSpecOfARefusal(t *testing.T) {
	for kind, equal := range map[v1.PodConditionType]bool{v1.PodResizePending: false, v1.PodResizeInProgress: false, v1.PodReady: true} {
		a, b := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: kind, ObservedGeneration: 1}}}, &v1.PodStatus{Conditions: []v1.PodCondition{{Type: kind, ObservedGeneration: 2}}}
		if got := equalStatus(a, b, 100); got != equal {
			t.Errorf("another generation of %s: equal is %t", kind, got)
		}
	}
}

// TestEqualIsSemantic checks values that differ but are equal, and the other way round.
func TestEqualIsSemantic(t *testing.T) {
	at := func(d time.Duration) *v1.PodStatus {
		return &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Time{Time: t0.Add(d)}}},
		}}}
	}
	message := func(m string) *v1.PodStatus {
		return &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: m}},
		}}}
	}
	conditions := func(types ...v1.PodConditionType) *v1.PodStatus {
		s := &v1.PodStatus{}
		for _, c := range types {
			s.Conditions = append(s.Conditions, v1.PodCondition{Type: c, Status: v1.ConditionTrue})
		}
		return s
	}
	for _, test := range []struct {
		rule string
		a, b *v1.PodStatus
		want bool
	}{
		{"edge 15 nanoseconds", at(0), at(1), true},
		{"a second", at(0), at(time.Second), false},
		{"7.5 beyond the cut", message("0123456789a"), message("0123456789b"), true},
		{"7.5 within the cut", message("012345678a"), message("012345678b"), false},
		{"7.4 foreign conditions do not count", conditions("example.com/x", v1.PodReady), conditions(v1.PodReady), true},
		{"7.4 order of conditions does not count", conditions(v1.PodInitialized, v1.PodReady), conditions(v1.PodReady, v1.PodInitialized), true},
		{"7.4 number of owned ones does", conditions(v1.PodReady), conditions(v1.PodReady, v1.PodInitialized), false},
		{"7.4 shared one does", conditions(v1.PodReady), conditions(v1.PodReady, v1.DisruptionTarget), false},
	} {
		t.Run(test.rule, func(t *testing.T) {
			if got := equalStatus(test.a, test.b, 10); got != test.want {
				t.Errorf("equal is %t", got)
			}
			if got := equalStatus(test.b, test.a, 10); got != test.want {
				t.Errorf("other way round, equal is %t", got)
			}
		})
	}
	list := func(cpu, other string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), "example.com/gpu": resource.MustParse(other)}
	}
	if !podinfo.SameAmounts(list("1", "2"), list("1000m", "2")) || podinfo.SameAmounts(list("1", "2"), list("1", "3")) || podinfo.SameAmounts(list("1", "2"), list("2", "2")) {
		t.Error("quantities are compared wrongly")
	}
	if podinfo.SameAmounts(v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}, v1.ResourceList{v1.ResourceMemory: resource.MustParse("1")}) {
		t.Error("lists of different resources are equal")
	}
}
