package main

import (
	"fmt"
	"strings"
	"testing"
)

// spec/probe.md 11.5, 11.6: what probes and hooks may reach, on the command line.
func TestOutboundOptions(t *testing.T) {
	const socket = "--runtime=unix:///run/x.sock"
	for _, tc := range []struct {
		args []string
		want string // Allow and NoHost
		err  string
	}{
		{[]string{socket}, "[] false", ""},
		{nil, "[127.0.0.0/8 ::1/128] false", ""}, // the process runtime
		{[]string{"--outbound-allow=169.254.20.10"}, "[169.254.20.10/32] false", ""},
		{[]string{socket, "--outbound-allow=169.254.20.10, fd00:ec2::/32", "--outbound-no-host"}, "[169.254.20.10/32 fd00:ec2::/32] true", ""},
		{[]string{socket, "--outbound-allow=localhost"}, "", `--outbound-allow "localhost"`},
	} {
		o, err := parse(append([]string{"--manifests", t.TempDir(), "--root", t.TempDir()}, tc.args...))
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q: %v", tc.args, err)
			}
			continue
		}
		if c := o.outbound.config(); err != nil || fmt.Sprint(c.Allow, c.NoHost) != tc.want {
			t.Errorf("%q: %v %v, %v", tc.args, c.Allow, c.NoHost, err)
		}
	}
}
