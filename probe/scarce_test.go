package probe_test

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/probe"
)

// TestWhatTheNodeLacksIsNoFailure is 5.13: a connection that the node could not begin to make says
// nothing of the container, unlike one that was not accepted.
func TestWhatTheNodeLacksIsNoFailure(t *testing.T) {
	port := intstr.FromInt32(80)
	for _, c := range []struct {
		call   string
		errno  syscall.Errno
		result string // "" for an error: no result
	}{
		{"socket", syscall.EMFILE, ""},
		{"socket", syscall.ENFILE, ""},
		{"socket", syscall.ENOMEM, ""},
		{"socket", syscall.ENOBUFS, ""},
		{"connect", syscall.EADDRNOTAVAIL, ""},
		{"connect", syscall.ECONNREFUSED, "Failure"},
		{"connect", syscall.EHOSTUNREACH, "Failure"},
	} {
		for kind, pod := range map[string]*v1.Pod{
			"http": withHTTP(v1.HTTPGetAction{Port: port, Path: "/?token=secret"}), "tcp": withTCP(port, ""), "grpc": withGRPC(port.IntVal, nil),
		} {
			t.Run(kind+" "+c.errno.Error(), func(t *testing.T) {
				e, said := onceAt(t, pod, "10.9.8.7", func(o *probe.Options) {
					o.Outbound.Dial = func(_ context.Context, _ types.UID, network, _ string) (net.Conn, error) {
						return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError(c.call, c.errno)}
					}
				})
				if e.LastResult != c.result || !strings.Contains(e.LastOutput, c.errno.Error()) {
					t.Errorf("%+v", e)
				}
				if len(said) != 1 || !strings.Contains(said[0], c.errno.Error()) || strings.Contains(said[0], "secret") {
					t.Errorf("said %q", said)
				}
			})
		}
	}
}
