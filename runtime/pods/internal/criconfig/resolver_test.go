package criconfig_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

// spec/runtime.md 4.4: which file a pod's resolver settings come from.
func TestNodeResolver(t *testing.T) {
	const (
		etc      = "/etc/resolv.conf"
		asks     = "/run/systemd/resolve/resolv.conf"
		stub     = "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch lan\n"
		upstream = "nameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch lan\n"
	)
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		file  string
		files map[string]string
		fault string // the path that cannot be read
		want  string
	}{
		"a plain node":                     {"", map[string]string{etc: "nameserver 10.0.0.2\n", asks: upstream}, "", "[10.0.0.2] [] []"},
		"systemd-resolved":                 {"", map[string]string{etc: stub, asks: upstream}, "", "[192.0.2.1 192.0.2.2] [lan] []"},
		"its other address":                {"", map[string]string{etc: "nameserver 127.0.0.54\n", asks: upstream}, "", "[192.0.2.1 192.0.2.2] [lan] []"},
		"a server beside it":               {"", map[string]string{etc: "nameserver 127.0.0.53\nnameserver 10.0.0.2\n", asks: upstream}, "", "[127.0.0.53 10.0.0.2] [] []"},
		"another server of the node's own": {"", map[string]string{etc: "nameserver 127.0.0.1\n", asks: upstream}, "", "[127.0.0.1] [] []"},
		"it asks no server yet":            {"", map[string]string{etc: stub, asks: "search lan\n"}, "", "[127.0.0.53] [lan] [edns0 trust-ad]"},
		"its file is elsewhere":            {"", map[string]string{etc: stub}, "", "[127.0.0.53] [lan] [edns0 trust-ad]"},
		"its file cannot be read":          {"", map[string]string{etc: stub}, asks, "resolver file: broken"},
		"no servers at all":                {"", map[string]string{etc: "search lan\n", asks: upstream}, "", "[] [lan] []"},
		"a file that the user names":       {"/my", map[string]string{"/my": stub, asks: upstream}, "", "[127.0.0.53] [lan] [edns0 trust-ad]"},
		"a file that the user names, gone": {"/my", map[string]string{etc: upstream}, "", "resolver file: file does not exist"},
	} {
		got, err := criconfig.NodeResolver(tc.file, func(path string) ([]byte, error) {
			text, ok := tc.files[path]
			switch {
			case path == tc.fault:
				return nil, broken
			case !ok:
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		})
		text := fmt.Sprint(err)
		if err == nil {
			text = dnsText(got)
		}
		if text != tc.want {
			t.Errorf("4.4 %s: %s, want %s", name, text, tc.want)
		}
	}
}
