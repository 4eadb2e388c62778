package source

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestJSONMayBeASCII is F2, H1: JSON writes characters beyond U+FFFF as pairs of escapes where it is to be ASCII. The
// generated UID is that of the characters (D1).
func TestJSONMayBeASCII(t *testing.T) {
	d, err := newDecoder("n1", false)
	must(t, err)
	decode := func(annotation string) *v1.Pod {
		t.Helper()
		pod, err := d.decode([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","annotations":{"a":"`+annotation+`"}},"spec":{"containers":[{"name":"main","image":"app:1"}]}}`), "file:/x")
		must(t, err)
		return pod
	}
	for escaped, want := range map[string]string{
		`\ud83d\uDE80 \\ud83d \u00e9\"\\`: "\U0001F680 \\ud83d \u00e9\"\\",
		`\ud83d`:                          "\ufffd",
		`\ude80\ud83d\ude80x`:             "\ufffd\U0001F680x",
		`\ud83d\u0041\ud83dA`:             "\ufffdA\ufffdA",
		`\ud83d\ud83d\ude80`:              "\ufffd\U0001F680",
	} {
		diff(t, escaped, want, decode(escaped).Annotations["a"])
	}
	diff(t, "UID", decode("\U0001F680").UID, decode(`\ud83d\ude80`).UID)
	if _, err := d.decode([]byte(manifestOf("web", "app:1")+`    command: ["\ud83d\ude80"]`), "file:/x"); !errors.Is(err, ErrMalformed) {
		t.Errorf("in YAML there are no pairs: %v", err)
	}
	objects, err := newObjectDecoder()
	must(t, err)
	read, _, err := objects.decode([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"\ud83d\ude80"}}`))
	must(t, err)
	diff(t, "config map", map[string]string{"k": "\U0001F680"}, read[Object{Kind: kindConfigMap, Namespace: "default", Name: "c"}].(*v1.ConfigMap).Data)
}
