package source

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// FuzzAnswer: every answer of a server is a set of pods of this node or an error (H4). A bad
// pod in a list never yields half a set.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		manifestOf("web", "app:1"),
		`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}},{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`,
		`{"apiVersion":"v1","kind":"List","items":[null]}`,
		`{"apiVersion":"v1","kind":"PodList","items":[{"kind":7}]}`,
		`{"apiVersion":"v1","kind":"PodList","items":{}}`,
		"kind: List\napiVersion: v1\nitems:\n- &a {kind: Pod, apiVersion: v1, metadata: {name: x, uid: ../../x}}\n- *a\n",
		" \n",
		"---\n# nothing\n---\n",
	} {
		f.Add([]byte(seed))
	}
	h, err := NewHTTP("http://config.example/", "node", HTTPOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		set, problem, err := h.decodeSet(body)
		if err != nil && (set != nil || problem != nil) {
			t.Fatalf("%d pods and %v beside the error %v", len(set), problem, err)
		}
		for _, pod := range set {
			if pod.Spec.NodeName != "node" || pod.UID == "" || !strings.HasSuffix(pod.Name, "-node") || pod.DeletionTimestamp != nil || pod.Status.Phase != v1.PodPending {
				t.Errorf("%+v", pod)
			}
			if problems := Validate(pod); len(problems) > 0 {
				t.Errorf("an invalid pod got through: %v", problems)
			}
		}
	})
}

// FuzzObjects: every file of objects yields valid objects, or an error that quotes no value
// (OB6).
func FuzzObjects(f *testing.F) {
	for _, seed := range []string{
		settings,
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: aHVudGVyMg==}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: t}\nstringData: {\"..\": x}\n",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"../x"},"data":{"a":"!hunter2"}}`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nhunter2: hunter2\ndata: {a: [hunter2]}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\nbinaryData: {a: Yg==}\n",
		"a: &a [*a]",
	} {
		f.Add(seed, "hunter2")
	}
	d, err := newObjectDecoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		objects, _, err := d.decode([]byte(text))
		if objects == nil && err == nil {
			t.Fatal("neither objects nor an error")
		}
		for o, object := range objects {
			if problem := checkObject(o, object); problem != nil {
				t.Errorf("an invalid object got through: %v", problem)
			}
			for _, key := range dataKeys(object) {
				if key == "" || key == "." || key == ".." || strings.ContainsAny(key, "/\x00") {
					t.Errorf("key %q got through", key)
				}
			}
		}
		// The same text as a value of an object that is refused for another field.
		_, _, err = d.decode([]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  k: " + quoted(value) + "\ndata: {b: '*'}\n"))
		if err == nil {
			t.Fatal("data that is not base64 got through")
		}
		if len(value) > 6 && strings.Contains(err.Error(), value) && !strings.Contains(noValue, value) {
			t.Errorf("the error quotes the value: %v", err)
		}
	})
}

// noValue is the text of such an error, whatever the value.
const noValue = "document 1: not a config map or secret: it is not valid, a field has the wrong type, or data is not base64"

// quoted returns a text as a YAML string.
func quoted(text string) string {
	return "'" + strings.Map(func(r rune) rune {
		if r < ' ' || r == '\'' || r > '~' {
			return 'x'
		}
		return r
	}, text) + "'"
}
