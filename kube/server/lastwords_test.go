package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestLastWords (KH5): what a runtime sends before it closes a stream arrives, such as the exit
// code, however much the client sends at that moment.
func TestLastWords(t *testing.T) {
	last := strings.Repeat("exit code 7 ", 4000)
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer backend.Close()
	serving.Go(func() {
		for {
			conn, err := backend.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					t.Error(err)
				}
				fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
				_, _ = io.ReadFull(conn, make([]byte, 3)) // the client's "bye"
				fmt.Fprint(conn, last)
			})
		}
	})
	r := newRig(t, &remote{url: "http://" + backend.Addr().String() + "/exec/token"})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				if got := r.lastWords(); got != last {
					t.Errorf("%d bytes of %d", len(got), len(last))
				}
			}
		})
	}
	all.Wait()
}

// lastWords ends an exec, and goes on sending until it has read everything.
func (r *rig) lastWords() string {
	certificate := r.ca.issue("admin", x509.ExtKeyUsageClientAuth)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(r.address, "https://"), &tls.Config{RootCAs: r.ca.pool(), ServerName: "127.0.0.1", Certificates: []tls.Certificate{certificate}})
	if err != nil {
		r.Error(err)
		return ""
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /exec/default/web/app?output=1&command=sh HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n")
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		r.Errorf("%v, %v", response, err)
		return ""
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		_, err := conn.Write([]byte("bye"))
		for err == nil {
			_, err = conn.Write([]byte("and"))
		}
	})
	var out bytes.Buffer
	_, _ = io.Copy(&out, in)
	conn.Close()
	return out.String()
}
