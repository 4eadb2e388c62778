package probe

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/internal/outbound"
)

// answering is a connection to a container that reads a request, says one text, whatever it
// was asked, and closes. Its goroutine ends with the connection.
func answering(answer []byte, ended *sync.WaitGroup) net.Conn {
	here, there := net.Pipe()
	ended.Go(func() {
		defer there.Close() //nolint:errcheck // a pipe
		if r, err := http.ReadRequest(bufio.NewReader(there)); err == nil && r.Method == http.MethodGet {
			_, _ = there.Write(answer)
		}
	})
	return here
}

// FuzzHTTPAnswer: whatever a container answers to a probe, there is a verdict or an error, of
// bounded length and text, no redirect leads to another host, and no chain is endless
// (5.5, 5.6).
func FuzzHTTPAnswer(f *testing.F) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nbroken off",
		"HTTP/1.1 301 Moved\r\nLocation: /again\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1:81/\r\n\r\n",
		"HTTP/1.0 500 secret\r\n\r\nsecret",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\nx",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 -1 \r\n\r\n", "SSH-2.0-OpenSSH\r\n", "", strings.Repeat("\xee", maxOutput+1),
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		var ended sync.WaitGroup
		dials := 0
		h := httpHandler{dialer: outbound.New(outbound.Options{Dial: func(_ context.Context, _ types.UID, _, address string) (net.Conn, error) {
			if address != "10.0.0.1:80" { // 5.5
				t.Errorf("led to %q", address)
				return nil, errors.New("another server")
			}
			dials++
			return answering(answer, &ended), nil
		}}, nil)}
		got, err := h.Probe(t.Context(), Target{
			Pod: &v1.Pod{}, Container: &v1.Container{}, PodIP: "10.0.0.1",
			Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}},
		})
		ended.Wait()
		if err == nil && got.Result != Success && got.Result != Failure {
			t.Errorf("verdict %+v", got)
		}
		if len(got.Output) > maxOutput || err != nil && len(err.Error()) > maxOutput {
			t.Errorf("%d bytes of output, error %.100v", len(got.Output), err)
		}
		if got.Result == Failure && !utf8.ValidString(got.Output) {
			t.Errorf("an event would show %.200q", got.Output)
		}
		if got.Result == Success && !strings.HasPrefix(got.Output, "HTTP status code ") && !got.Warning {
			t.Errorf("5.6: a success shows %q", got.Output)
		}
		if dials > maxRedirects {
			t.Errorf("%d connections", dials)
		}
	})
}
