package criconfig_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

// spec/runtime.md 4.3.
func TestParseResolvConf(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"servers add up", "nameserver 10.0.0.2\nnameserver\t10.0.0.3 x\n", "[10.0.0.2 10.0.0.3] [] []"},
		{"a comment", "#nameserver 1\n  # nameserver 2\nnameserver 3\n", "[3] [] []"},
		{"the last search wins", "search old\nsearch a b\n", "[] [a b] []"},
		{"dots", "search . a. b.c.\n", "[] [a b.c] []"},
		{"options merge in order", "options ndots:2 rotate\noptions timeout:1 ndots:3\n", "[] [] [ndots:3 rotate timeout:1]"},
		{"odd lines", "nameserver\nsortlist x\n\n  \nsearch\n", "[] [] []"},
		{"nothing", "", "[] [] []"},
	} {
		if got := dnsText(criconfig.ParseResolvConf([]byte(tc.text))); got != tc.want {
			t.Errorf("4.3 %s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func dnsText(c *runtimeapi.DNSConfig) string {
	return fmt.Sprint(c.Servers) + " " + fmt.Sprint(c.Searches) + " " + fmt.Sprint(c.Options)
}

// spec/runtime.md 4 and 4.1: every row.
func TestDNS(t *testing.T) {
	const (
		host    = "[10.0.0.2 10.0.0.3] [a b] [ndots:3 rotate]"
		cluster = "[10.96.0.10] [ns.svc.c.local svc.c.local c.local a b] [ndots:5]"
	)
	file := criconfig.ParseResolvConf([]byte("nameserver 10.0.0.2\nnameserver 10.0.0.3\nsearch a b\noptions ndots:3 rotate\n"))
	for _, tc := range []struct {
		name        string
		policy      v1.DNSPolicy
		hostNetwork bool
		noCluster   bool
		noFile      bool
		config      *v1.PodDNSConfig
		want        string
		missing     bool
		unknown     bool
	}{
		{name: "ClusterFirst", policy: v1.DNSClusterFirst, want: cluster},
		{name: "nothing said", policy: "", want: cluster},
		{name: "ClusterFirstWithHostNet on the host", policy: v1.DNSClusterFirstWithHostNet, hostNetwork: true, want: cluster},
		{name: "ClusterFirst, no cluster DNS", policy: v1.DNSClusterFirst, noCluster: true, want: host, missing: true},
		{name: "ClusterFirstWithHostNet, no cluster DNS", policy: v1.DNSClusterFirstWithHostNet, hostNetwork: true, noCluster: true, want: host, missing: true},
		{name: "nothing said, no cluster DNS", noCluster: true, want: host},
		{name: "ClusterFirst on the host", policy: v1.DNSClusterFirst, hostNetwork: true, want: host},
		{name: "Default", policy: v1.DNSDefault, want: host},
		{name: "Default, no file", policy: v1.DNSDefault, noFile: true, want: "[127.0.0.1 ::1] [.] []"},
		{name: "ClusterFirst, no file", policy: v1.DNSClusterFirst, noFile: true, want: "[10.96.0.10] [ns.svc.c.local svc.c.local c.local] [ndots:5]"},
		{name: "None", policy: v1.DNSNone, want: "[] [] []"},
		{name: "unknown", policy: "Odd", want: cluster, unknown: true},
		{name: "unknown on the host", policy: "Odd", hostNetwork: true, want: cluster, unknown: true},
		{
			name: "4.1 dnsConfig over Default", policy: v1.DNSDefault, want: "[10.0.0.2 10.0.0.3 1.1.1.1] [a b c] [ndots:9 rotate x]",
			config: &v1.PodDNSConfig{
				Nameservers: []string{"10.0.0.3", "1.1.1.1"}, Searches: []string{"b", "c"},
				Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("9")}, {Name: "x"}},
			},
		},
		{
			name: "4.1 dnsConfig over ClusterFirst", policy: v1.DNSClusterFirst, want: "[10.96.0.10 1.1.1.1] [ns.svc.c.local svc.c.local c.local a b] [ndots:2]",
			config: &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}, Searches: []string{"a"}, Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("2")}}},
		},
		{
			name: "4.1 dnsConfig alone", policy: v1.DNSNone, want: "[1.1.1.1] [x] [debug]",
			config: &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "1.1.1.1"}, Searches: []string{"x", "x"}, Options: []v1.PodDNSConfigOption{{Name: "debug", Value: ptr.To("")}}},
		},
	} {
		t.Run("4 "+tc.name, func(t *testing.T) {
			in := criconfig.DNSInput{
				Pod: newPod(func(p *v1.Pod) {
					p.Spec.DNSPolicy, p.Spec.HostNetwork, p.Spec.DNSConfig = tc.policy, tc.hostNetwork, tc.config
				}),
				Node: file, Loopback: []string{"127.0.0.1", "::1"}, Cluster: []string{"10.96.0.10"}, ClusterDomain: "c.local",
			}
			if tc.noCluster {
				in.Cluster = nil
			}
			if tc.noFile {
				in.Node = nil
			}
			got := criconfig.DNS(in)
			if text := dnsText(got.Config); text != tc.want || got.MissingCluster != tc.missing || got.UnknownPolicy != tc.unknown || got.Exceeded != nil {
				t.Errorf("%s, %+v; want %s", text, got, tc.want)
			}
		})
	}
	if text := dnsText(file); text != host {
		t.Errorf("4: the node's settings were changed to %s", text)
	}
}

// spec/runtime.md 4.2.
func TestDNSLimits(t *testing.T) {
	limited := func(servers, searches []string) criconfig.DNSResult {
		return criconfig.DNS(criconfig.DNSInput{Pod: newPod(func(p *v1.Pod) {
			p.Spec.DNSPolicy = v1.DNSNone
			p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: servers, Searches: searches}
		})})
	}
	numbered := func(n int, format string) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return out
	}
	got := limited(numbered(5, "10.0.0.%d"), nil)
	if d := cmp.Diff([]string{"10.0.0.0", "10.0.0.1", "10.0.0.2"}, got.Config.Servers); d != "" || len(got.Exceeded) != 1 ||
		!strings.HasSuffix(got.Exceeded[0], ": 10.0.0.0 10.0.0.1 10.0.0.2") {
		t.Errorf("4.2 servers: %+v\n%s", got, d)
	}
	if got = limited(nil, numbered(33, "s%d")); len(got.Config.Searches) != 32 || len(got.Exceeded) != 1 || !strings.HasSuffix(got.Exceeded[0], " s30 s31") {
		t.Errorf("4.2 entries: %+v", got)
	}
	if got = limited(nil, numbered(32, "s%d")); len(got.Config.Searches) != 32 || got.Exceeded != nil {
		t.Errorf("4.2 just enough entries: %+v", got)
	}
	long := strings.Repeat("x", 254)
	if got = limited(nil, []string{long, "a", long[1:]}); !slices.Equal(got.Config.Searches, []string{"a", long[1:]}) || len(got.Exceeded) != 1 {
		t.Errorf("4.2 an entry over 253 characters: %+v", got)
	}
	// 20 of 101 characters and their spaces are 2039; a short one after the cut is not slipped in.
	if got = limited(nil, append(numbered(21, "%0101d"), "tiny")); len(got.Config.Searches) != 20 || len(got.Exceeded) != 1 {
		t.Errorf("4.2 text: %d entries", len(got.Config.Searches))
	}
	// Exactly 2048 characters fit: 8 x 255 + 8.
	exact := append(numbered(8, "%0253d"), numbered(1, "%016d")...)
	if got = limited(nil, exact); len(strings.Join(got.Config.Searches, " ")) != 8*253+8+16 || got.Exceeded != nil {
		t.Errorf("4.2 text that just fits: %+v", got.Exceeded)
	}
}

// spec/runtime.md 4.2: whatever a pod asks for, what a resolver gets is within
// the limits and begins like what was asked for.
func TestDNSLimitsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		searches := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,300}`), 0, 40).Draw(t, "searches")
		servers := rapid.SliceOfN(rapid.StringMatching(`[0-9]{1,3}`), 0, 6).Draw(t, "servers")
		got := criconfig.DNS(criconfig.DNSInput{Pod: newPod(func(p *v1.Pod) {
			p.Spec.DNSPolicy = v1.DNSNone
			p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: servers, Searches: searches}
		})})
		c := got.Config
		if len(c.Servers) > 3 || len(c.Searches) > 32 || len(strings.Join(c.Searches, " ")) > 2048 {
			t.Fatalf("4.2: %v", c)
		}
		if tooLong := func(s string) bool { return len(s) > 253 }; slices.ContainsFunc(c.Searches, tooLong) {
			t.Fatalf("4.2: %v", c.Searches)
		}
	})
}
