package main

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFindPods: a name means the pod that it fits best; several are named, and so are those of other namespaces.
func TestFindPods(t *testing.T) {
	var pods []v1.Pod
	for _, text := range []string{"default/web-n1/aaaa1", "default/web/aaaa2", "shop/web/bbbb1", "shop/db-n1/bbbb2", "other/db-n1/cccc1", "default/life-n1/dddd1", "default/life-n1/dddd2"} {
		p := strings.Split(text, "/")
		pods = append(pods, v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p[0], Name: p[1], UID: types.UID(p[2])}, Spec: v1.PodSpec{NodeName: "n1"}})
	}
	for _, c := range []struct{ namespace, name, uids, says string }{
		{"default", "web", "aaaa2", ""},
		{"default", "web-n1", "aaaa1", ""},
		{"shop", "db", "bbbb2", ""},
		{"", "db", "bbbb2 cccc1", `"db" means several pods: other/db-n1 (UID cccc1), shop/db-n1 (UID bbbb2); name one as NAMESPACE/NAME`},
		{"default", "life", "dddd1 dddd2", ""},
		{"default", "bbbb1", "bbbb1", ""},
		{"default", "cccc", "cccc1", ""},
		{"default", "ccc", "", `there is no pod "ccc" in namespace "default"; nodeagent pods lists them`},
		{"default", "aaaa", "aaaa1 aaaa2", `"aaaa" means several pods`},
		{"default", "db", "", `there is no pod "db" in namespace "default", but there is shop/db-n1, other/db-n1`},
		{"", "nope", "", `there is no pod "nope"; nodeagent pods`},
	} {
		found := findPods(pods, c.namespace, c.name)
		var uids []string
		for _, p := range found {
			uids = append(uids, string(p.UID))
		}
		said := ""
		if len(found) == 0 {
			said = missing(pods, c.namespace, c.name).Error()
		} else if err := ambiguous(c.name, found); err != nil {
			said = err.Error()
		}
		if strings.Join(uids, " ") != c.uids || (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s/%s: %q, %s", c.namespace, c.name, uids, said)
		}
	}
}

// TestChosenPods: a name that means several pods is a mistake on the command line, one that means none is not found.
func TestChosenPods(t *testing.T) {
	var pods []v1.Pod
	for _, namespace := range []string{"shop", "other"} {
		pods = append(pods, v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}})
	}
	for _, c := range []struct {
		names []string
		code  int
	}{{nil, 0}, {[]string{"shop/db"}, 0}, {[]string{"db"}, codeUsage}, {[]string{"nope"}, codeNotFound}, {[]string{"nope", "db"}, codeNotFound}} {
		if _, err := (&podsCommand{}).chosen(pods, c.names); exitCode(err) != c.code {
			t.Errorf("%q: code %d, %v", c.names, exitCode(err), err)
		}
	}
}
