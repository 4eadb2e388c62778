package syncloop

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// isLeaf reports whether values of a type are set as a whole.
func isLeaf(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[resource.Quantity]():
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Struct:
		return false
	}
	return true
}

// paths returns the path to every leaf of a type: the fields of the structs on the way.
func paths(t reflect.Type, path []int) (out [][]int) {
	switch {
	case isLeaf(t):
		return [][]int{slices.Clone(path)}
	case t.Kind() != reflect.Struct:
		return paths(t.Elem(), path)
	}
	for i := range t.NumField() {
		out = append(out, paths(t.Field(i).Type, append(path, i))...)
	}
	return out
}

// leafAt follows a path to its leaf and creates what is missing on the way.
func leafAt(v reflect.Value, path []int) (leaf reflect.Value, name string) {
	for !isLeaf(v.Type()) {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		case reflect.Slice:
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
			v = v.Index(0)
		default:
			name += "." + v.Type().Field(path[0]).Name
			v, path = v.Field(path[0]), path[1:]
		}
	}
	return v, name
}

// write sets a leaf to its n-th value. If a value has several spellings, write picks one at random.
func write(r *rand.Rand, leaf reflect.Value, n int64) {
	switch value := leaf.Addr().Interface().(type) {
	case *metav1.Time:
		zone := time.FixedZone("", r.IntN(10)*3600)
		value.Time = start.Add(time.Duration(n) * time.Hour).In(zone)
		return
	case *resource.Quantity:
		*value = resource.MustParse([]string{fmt.Sprint(n), fmt.Sprintf("%d000m", n)}[r.IntN(2)])
		return
	}
	switch leaf.Kind() {
	case reflect.String:
		leaf.SetString(fmt.Sprint("v", n))
	case reflect.Bool:
		leaf.SetBool(n%2 == 1)
	case reflect.Int, reflect.Int32, reflect.Int64:
		leaf.SetInt(n)
	case reflect.Uint8:
		leaf.SetUint(uint64(n))
	case reflect.Map:
		m := reflect.MakeMap(leaf.Type())
		for key, n := range []map[string]int64{{"memory": 2, "x": 1}, {"memory": 1, "x": 1}, {"memory": 1, "x": 2}, {"cpu": 1, "x": 1}}[n] {
			value := reflect.New(leaf.Type().Elem()).Elem()
			write(r, value, n)
			m.SetMapIndex(reflect.ValueOf(key).Convert(leaf.Type().Key()), value)
		}
		leaf.Set(m)
	default:
		panic("a kind of field this test does not know: " + leaf.Kind().String())
	}
}

// TestSameSeesEveryField changes every field of the API types (M6), once alone and once together
// with all others. A field that a new Kubernetes version adds fails this test until the comparison
// includes it.
func TestSameSeesEveryField(t *testing.T) {
	seesEveryField(t, sameSpec, (*v1.PodSpec).DeepCopy)
	seesEveryField(t, sameStatus, (*v1.PodStatus).DeepCopy)
}

func seesEveryField[T any](t *testing.T, same func(a, b *T) bool, copied func(*T) *T) {
	all, r := paths(reflect.TypeFor[T](), nil), rand.New(rand.NewPCG(0, 0))
	for _, others := range []bool{false, true} {
		base := new(T)
		for _, path := range all {
			if others {
				leaf, _ := leafAt(reflect.ValueOf(base).Elem(), path)
				write(r, leaf, 1)
			}
		}
		filled := func(at []int, n int64) (*T, string) {
			out := copied(base)
			leaf, name := leafAt(reflect.ValueOf(out).Elem(), at)
			write(r, leaf, n)
			return out, name
		}
		for _, path := range all {
			a, name := filled(path, 1)
			b, _ := filled(path, 1)
			if !same(a, b) {
				t.Errorf("%T%s: a copy is not the same", a, name)
			}
			for _, n := range []int64{0, 2} {
				if c, _ := filled(path, n); same(a, c) || same(c, a) {
					t.Errorf("%T%s: a change is not seen", a, name)
				}
			}
			if !others && (same(a, new(T)) || same(new(T), a)) {
				t.Errorf("%T%s: an addition is not seen", a, name)
			}
		}
	}
}

// TestSameAtRandom compares random pods, spellings of one pod and changes of it: the verdict equals
// that of a comparison by reflection, field by field of M6.
func TestSameAtRandom(t *testing.T) { rapid.Check(t, sameAtRandom) }

func FuzzSame(f *testing.F) { f.Fuzz(rapid.MakeFuzz(sameAtRandom)) }

func sameAtRandom(t *rapid.T) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	f := filler{r, rapid.IntRange(2, 12).Draw(t, "one in")}
	a, b := &v1.Pod{}, &v1.Pod{}
	f.fill(reflect.ValueOf(a).Elem())
	f.fill(reflect.ValueOf(b).Elem())
	if rapid.Bool().Draw(t, "related") {
		b = a.DeepCopy()
		f.respell(reflect.ValueOf(b).Elem())
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			for _, part := range []any{&b.Spec, &b.Status} {
				all := paths(reflect.TypeOf(part).Elem(), nil)
				leaf, name := leafAt(reflect.ValueOf(part).Elem(), all[r.IntN(len(all))])
				write(r, leaf, r.Int64N(4))
				t.Log("changed", name)
			}
		}
	}
	deep := apiequality.Semantic.DeepEqual
	if got, want := sameSpec(&a.Spec, &b.Spec), deep(a.Spec, b.Spec); got != want {
		t.Errorf("specs: %v, want %v", got, want)
	}
	if got, want := sameStatus(&a.Status, &b.Status), deep(a.Status, b.Status); got != want {
		t.Errorf("statuses: %v, want %v", got, want)
	}
	same := deep(a.Spec, b.Spec) && deep(a.Status, b.Status) && deep(a.Labels, b.Labels) && deep(a.Annotations, b.Annotations) &&
		deep(a.DeletionTimestamp, b.DeletionTimestamp) && deep(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds)
	e := entry{}
	e.keep(adopt(a, "file", start))
	if got := e.says(b); got != same {
		t.Errorf("says nothing new: %v, want %v", got, same)
	}
	if got := merge(e.pod, b) == e.pod; got != same {
		t.Errorf("nothing to merge: %v, want %v", got, same)
	}
}

// filler fills one in oneIn fields.
type filler struct {
	*rand.Rand
	oneIn int
}

func (f filler) fill(v reflect.Value) {
	if isLeaf(v.Type()) {
		if f.IntN(f.oneIn) == 0 {
			write(f.Rand, v, f.Int64N(4))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if f.IntN(f.oneIn) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		if f.IntN(f.oneIn) == 0 {
			v.Set(reflect.MakeSlice(v.Type(), f.IntN(3), 3))
		}
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	default:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	}
}

// respell changes the spelling of a value and keeps its meaning.
func (f filler) respell(v reflect.Value) {
	switch value := v.Addr().Interface().(type) {
	case *metav1.Time:
		if !value.IsZero() {
			value.Time = value.In(time.FixedZone("", f.IntN(10)*3600))
		}
		return
	case *resource.Quantity:
		*value = resource.MustParse(value.AsDec().String())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.respell(v.Elem())
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set([]reflect.Value{reflect.Zero(v.Type()), reflect.MakeSlice(v.Type(), 0, 0)}[f.IntN(2)])
		}
		for i := range v.Len() {
			f.respell(v.Index(i))
		}
	case reflect.Map:
		if v.Len() == 0 {
			v.Set([]reflect.Value{reflect.Zero(v.Type()), reflect.MakeMap(v.Type())}[f.IntN(2)])
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.respell(v.Field(i))
		}
	}
}
