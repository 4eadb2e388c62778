package source

import (
	"bytes"
	"encoding/binary"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf16"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// bomb is a manifest whose arguments repeat one text of 195 KiB a thousand times.
func bomb() string {
	return manifestOf("bomb", "app:1") + "    command: [&a \"" + strings.Repeat("x", 195<<10) + "\"" + strings.Repeat(", *a", 1000) + "]\n"
}

// laughs is a manifest whose annotations double in size: each has two aliases to the one before.
func laughs(open, between, closing string) string {
	var b strings.Builder
	b.WriteString(manifestOf("laughs", "app:1") + "x0: &x0 [lol]\n")
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&b, "x%d: &x%d %s*x%d%s*x%d%s\n", i, i, open, i-1, between, i-1, closing)
	}
	return b.String()
}

// allocated returns how many bytes f allocates.
func allocated(f func()) int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64() - before)
}

// peak returns the maximum of the additional bytes that are alive while f runs, as found by a
// garbage collector that runs all the time.
func peak(f func()) (most int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	debug.FreeOSMemory()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	before := int64(sample[0].Value.Uint64())
	var done atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer done.Store(true)
		f()
	}()
	for !done.Load() {
		metrics.Read(sample)
		most = max(most, int64(sample[0].Value.Uint64())-before)
	}
	<-ended
	return most
}

// TestAliasesAreMeasured is SRC5: expanded aliases count, and are counted before anything copies them.
func TestAliasesAreMeasured(t *testing.T) {
	for name, manifest := range map[string]string{
		"a text repeated":     bomb(),
		"lists of lists":      laughs("[", ", ", "]"),
		"mappings":            laughs("{a: ", ", b: ", "}"),
		"merged mappings":     manifestOf("m", "app:1") + "x: &x {a: \"" + strings.Repeat("x", 1<<20) + "\"}\ny: [" + strings.Repeat("{<<: *x},", 20) + "]\n",
		"a repeated key":      manifestOf("m", "app:1") + "a: &a {x: 1, x: \"" + strings.Repeat("x", 1<<20) + "\"}\nb: [" + strings.Repeat("*a,", 20) + "]\n",
		"an anchor in itself": manifestOf("m", "app:1") + "a: &a [*a]\n",
		"too many values":     manifestOf("m", "app:1") + "a: [" + strings.Repeat("[],", maxMarks/2) + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			d, err := newDecoder("n1", false)
			must(t, err)
			size := allocated(func() {
				if pod, err := d.decode([]byte(manifest), "file:/x"); pod != nil || !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrMalformed) {
					t.Errorf("pod %v, error %v; want it refused", pod != nil, err)
				}
			})
			if name == "a text repeated" && size > 50<<20 || size > 100<<20 {
				t.Errorf("refusing %d KiB allocated %d MiB", len(manifest)>>10, size>>20)
			}
			objects, err := newObjectDecoder()
			must(t, err)
			if got, _, err := objects.decode([]byte(manifest)); got != nil || err == nil {
				t.Errorf("object folder: %v, error %v; want it refused", got, err)
			}
		})
	}
}

// TestItemsAreCounted is SRC5: whatever ends a line in YAML, and in each of its encodings, items are counted
// before they are parsed.
func TestItemsAreCounted(t *testing.T) {
	encoded := func(order binary.AppendByteOrder, text string) (out []byte) {
		for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
			out = order.AppendUint16(out, unit)
		}
		return out
	}
	nested := "\n" + strings.Repeat("- ", 1000)
	for _, item := range []string{"-\n", "-\r", "-\u0085", "-\u2028", "-\u2029", nested} {
		text := "a:\n" + strings.Repeat(item, maxMarks/strings.Count(item, "-")+2)
		for name, text := range map[string][]byte{
			"UTF-8": []byte(text), "UTF-16LE": encoded(binary.LittleEndian, text), "UTF-16BE": encoded(binary.BigEndian, text),
		} {
			size := allocated(func() {
				if _, err := parse(text, 0, maxManifestSize); !errors.Is(err, ErrTooLarge) {
					t.Errorf("%d items of %.6q in %s: error %v", maxMarks, item, name, err)
				}
			})
			if size > 1<<20 {
				t.Errorf("%d items of %.6q in %s: refusing them allocated %d MiB", maxMarks, item, name, size>>20)
			}
		}
	}
}

// TestFewAliases: a manifest may repeat itself.
func TestFewAliases(t *testing.T) {
	d, err := newDecoder("n1", false)
	must(t, err)
	manifest := manifestOf("web", "&image app:1") + "    resources: &resources {limits: {cpu: 1}}\n  - {name: other, image: *image, resources: {<<: *resources}}\n"
	pod, err := d.decode([]byte(manifest), "file:/x")
	must(t, err)
	if c := pod.Spec.Containers; len(c) != 2 || c[1].Name != "other" || c[1].Image != "app:1" || c[1].Resources.Limits.Cpu().Value() != 1 {
		t.Errorf("containers %v", c)
	}
}

// TestObjectAliasesAddUp is OB3: all documents of a file share one limit, and the folder's total
// counts expanded aliases.
func TestObjectAliasesAddUp(t *testing.T) {
	one := func(i int) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {a: &a %s, b: *a, c: *a, d: *a, e: *a, f: *a, g: *a, h: *a, i: *a}\n",
			i, strings.Repeat("y", 100<<10))
	}
	var file strings.Builder
	d, err := newObjectDecoder()
	must(t, err)
	for i := range 4 {
		file.WriteString(one(i))
	}
	objects, size, err := d.decode([]byte(file.String()))
	must(t, err)
	if len(objects) != 4 || size < 4*900<<10 {
		t.Errorf("%d objects of %d bytes, want 4 of 3,600 KiB", len(objects), size)
	}
	file.WriteString(one(4))
	if objects, _, err := d.decode([]byte(file.String())); objects != nil || !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "document 5") {
		t.Errorf("5 documents of 900 KiB: %v, want ErrTooLarge in document 5", err)
	}
}

// largePod returns the manifest of a pod with n containers, as a tool writes it.
func largePod(n int) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n")
	for i := range n {
		fmt.Fprintf(&b, `  - name: container-%d
    image: registry.example/team/application:1.%d
    imagePullPolicy: IfNotPresent
    command:
    - /usr/bin/application
    - --config=/etc/application/config.yaml
    env:
    - name: SETTING_%d
      value: some value of the environment
    livenessProbe:
      failureThreshold: 3
      httpGet:
        path: /healthz
        port: 8080
        scheme: HTTP
    resources:
      limits:
        memory: 128Mi
      requests:
        cpu: 100m
        memory: 64Mi
`, i, i, i)
	}
	return []byte(b.String())
}

// TestDecodingMemory bounds the bytes alive at once, in multiples of the manifest.
func TestDecodingMemory(t *testing.T) {
	manifest := largePod(800)
	d, err := newDecoder("n1", false)
	must(t, err)
	live := int64(math.MaxInt64)
	for range 3 { // other work of the program can only add to it
		live = min(live, peak(func() { _, err = d.decode(manifest, "file:/x") }))
		must(t, err)
	}
	total := allocated(func() { _, err = d.decode(manifest, "file:/x") })
	t.Logf("%d KiB: %.1f times as much alive, %.1f times allocated", len(manifest)>>10, float64(live)/float64(len(manifest)), float64(total)/float64(len(manifest)))
	if live > 20*int64(len(manifest)) {
		t.Errorf("%d bytes are alive for a manifest of %d bytes", live, len(manifest))
	}
	if total > 80*int64(len(manifest)) {
		t.Errorf("%d bytes were allocated for a manifest of %d bytes", total, len(manifest))
	}
}

func BenchmarkDecode(b *testing.B) {
	manifest := largePod(400)
	d, err := newDecoder("n1", false)
	if err != nil {
		b.Fatal(err)
	}
	var total int64
	b.SetBytes(int64(len(manifest)))
	for b.Loop() {
		total += allocated(func() { _, err = d.decode(manifest, "file:/x") })
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(total)/float64(b.N)/float64(len(manifest)), "alloc/size")
	b.ReportMetric(float64(peak(func() { _, _ = d.decode(manifest, "file:/x") }))/float64(len(manifest)), "alive/size")
}

// oldCanonical returns the form from which the first release generated UIDs, which went through JSON.
func oldCanonical(asJSON []byte) ([]byte, error) {
	d := stdjson.NewDecoder(bytes.NewReader(asJSON))
	d.UseNumber()
	var content map[string]any
	if err := d.Decode(&content); err != nil {
		return nil, err
	}
	delete(content, "status")
	withoutNull(content)
	return stdjson.Marshal(content)
}

func withoutNull(value any) {
	switch x := value.(type) {
	case map[string]any:
		for k, inner := range x {
			if inner == nil {
				delete(x, k)
			}
			withoutNull(inner)
		}
	case []any:
		for _, inner := range x {
			withoutNull(inner)
		}
	}
}

// FuzzDocument compares with the conversion that Kubernetes tools use for YAML: both refuse the same
// documents, and give the others the same content and generated UIDs (D1). JSON that this conversion refuses is
// compared with a JSON decoder, which is what those tools use for it.
func FuzzDocument(f *testing.F) {
	f.Add([]byte("a: 1.50\nb: 1e3\nc: 0x1F\nd: 0777\ne: yes\nf: ~\ng: \"a\\u0001<&>\\u2028é\"\nh: [null, {i: null}]\nstatus: {x: 1}\n"))
	f.Add([]byte("1: a\n1.5: b\ntrue: c\n.inf: d\n18446744073709551615: e\n"))
	f.Add([]byte("a: 18446744073709551615\nb: -9223372036854775808\nc: 1e400\nd: .nan\n"))
	f.Add([]byte("a: &a {b: 1, b: 2}\nc: {<<: *a}\n? [x]\n: y\n"))
	f.Add([]byte("a: !!binary gIGC\nb: 2001-12-14t21:59:43.10-05:00\nc: 190:20:30\n"))
	f.Add([]byte(`{"a":"\ud83d\ude00","b":1.0,"c":[],"d":{}}`))
	f.Add([]byte(`{"\uD83D\\ud83d":"\ud83d\\","b":"\ude00\ud83d\ude00\n"}`))
	f.Add([]byte(manifestOf("web", "app:1")))
	f.Fuzz(func(t *testing.T, text []byte) {
		want, wantErr := yaml.YAMLToJSON(text)
		parsed, err := parse(text, 0, maxManifestSize)
		var got []byte
		if err == nil {
			got, err = toJSON(parsed.content)
		}
		if errors.Is(err, ErrTooLarge) {
			return
		}
		asJSON := wantErr != nil && err == nil && stdjson.Valid(text)
		if asJSON {
			if bytes.ContainsAny(text, "\u0085\u2028\u2029") || stdjson.Unmarshal(text, new(any)) != nil {
				return // line breaks in YAML, and numbers of any size
			}
			want, wantErr = text, nil
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if keys, ok := parsed.content.(map[any]any); ok && len(keys) > 0 && ambiguous(parsed.content) {
			return // the old conversion picked 1 or "1" by accident
		}
		var a, b any
		if err := errors.Join(stdjson.Unmarshal(got, &a), stdjson.Unmarshal(want, &b)); err != nil {
			t.Fatal(err)
		}
		diff(t, "content", b, a)
		if canonical, err := oldCanonical(want); err == nil && !asJSON {
			var now bytes.Buffer
			must(t, writeCanonical(&now, parsed.content))
			diff(t, "canonical form", string(canonical), now.String())
		}
		if size := int64(len(text)) + 64; parsed.size > size && !bytes.ContainsRune(text, '*') {
			t.Errorf("%d bytes count as %d", len(text), parsed.size)
		}
	})
}

// ambiguous reports whether two keys of a mapping are the same key in JSON.
func ambiguous(value any) bool {
	switch x := value.(type) {
	case map[any]any:
		names := map[string]bool{}
		for key, inner := range x {
			name, _ := keyText(key)
			if names[name] || ambiguous(inner) {
				return true
			}
			names[name] = true
		}
	case []any:
		for _, inner := range x {
			if ambiguous(inner) {
				return true
			}
		}
	}
	return false
}

// TestAnnotationsHaveALimit: the limit is an API server's, for all annotations together.
func TestAnnotationsHaveALimit(t *testing.T) {
	for size, want := range map[int]int{maxAnnotations: 0, maxAnnotations + 1: 1} {
		pod := valid(func(p *v1.Pod) {
			p.Annotations = map[string]string{"a": strings.Repeat("x", 1000), "b": strings.Repeat("x", size-1002)}
		})
		Default(pod)
		if got := Validate(pod); len(got) != want {
			t.Errorf("%d bytes: %v", size, got)
		}
	}
}
