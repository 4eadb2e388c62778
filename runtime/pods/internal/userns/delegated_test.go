package userns

import (
	"strings"
	"testing"
)

// TestDelegated is spec/runtime.md 3.7: the ranges that the node's administrator gives to the
// agent's user.
func TestDelegated(t *testing.T) {
	const others = "# pods\nalice:100000:65536\n\nkubelet2:1:1\nbroken\nbob:x:y\n"
	for name, tc := range map[string]struct {
		subuid, subgid string
		want           Range
		found          bool
		err            string
	}{
		"no files":             {},
		"others only":          {subuid: others, subgid: others},
		"the same in both":     {subuid: others + "kubelet:65536:131072\n", subgid: "kubelet:65536:131072", want: Range{65536, 131072}, found: true},
		"spaces at the end":    {subuid: "kubelet:65536:65536 \r\n", subgid: "kubelet:65536:65536", want: Range{65536, 65536}, found: true},
		"users only":           {subuid: "kubelet:65536:65536", err: "the same range"},
		"groups only":          {subgid: "kubelet:65536:65536", err: "the same range"},
		"different":            {subuid: "kubelet:65536:65536", subgid: "kubelet:131072:65536", err: "the same range"},
		"an empty range":       {subuid: "kubelet:0:0", err: "the same range"},
		"two ranges":           {subuid: "kubelet:65536:65536\nkubelet:131072:65536", err: "/etc/subuid: it has more than one range"},
		"no number":            {subuid: "kubelet:a:65536", err: `"a" is no number`},
		"negative":             {subuid: "kubelet:-1:65536", err: `"-1" is no number`},
		"more than 32 bits":    {subuid: "kubelet:4294967296:65536", err: "32 bits"},
		"too few fields":       {subuid: "kubelet:65536", err: "USER:FIRST:COUNT"},
		"too many in subgid":   {subuid: "kubelet:65536:65536", subgid: "kubelet:65536:65536:1", err: "/etc/subgid"},
		"only the name counts": {subuid: "kubelet", err: "USER:FIRST:COUNT"},
	} {
		got, found, err := Delegated(tc.subuid, tc.subgid, "kubelet")
		if got != tc.want || found != tc.found || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, %v, %v", name, got, found, err)
		}
	}
}
