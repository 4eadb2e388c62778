package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podwright/podwright/internal/goroutinetest"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// took runs f and returns how long it took.
func took(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}

// text is n bytes, with everything at its place told from everything else.
func text(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat(string(rune('a'+i%26)), i%97))
		b.WriteByte('\n')
	}
	return b.String()[:n]
}

// largePod has an annotation of n bytes.
func largePod(n int) *v1.Pod {
	pod := web.DeepCopy()
	pod.Annotations = map[string]string{"large": text(n)}
	return pod
}

// writeLog makes the log of every container a text, which ends.
func (r *rig) writeLog(text string) {
	r.engine.log = func(_ context.Context, _ containerlog.Options, w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// KH9: Serve returns after all that it started has ended, also what keeps a connection for a moment because the answer came
// before the whole request was read.
func TestServeWaitsForItsConnections(t *testing.T) {
	r := newRig(t, nil)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(r.address, "https://"), &tls.Config{RootCAs: r.ca.pool(), MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, fmt.Sprintf("POST /typo HTTP/1.1\r\nHost: n1\r\nContent-Length: %d\r\n\r\n%s", 1<<20, text(maxBody+1))); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413") {
		t.Fatalf("%s, %v", answer, err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if n := goroutinetest.Count("net/http.(*conn)"); n > 0 {
		t.Errorf("%d goroutines of connections are left", n)
	}
}

// KH9: a client that takes nothing of an answer that ends by itself is cut off, whatever the answer is.
func TestClientsThatReadNothing(t *testing.T) {
	const token = " HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer good\r\n\r\n"
	for name, request := range map[string]string{
		"pods":            "GET /pods" + token,
		"health":          "GET /healthz" + token,
		"metrics":         "GET /metrics" + token,
		"probes":          "GET /metrics/probes" + token,
		"statistics":      "GET /stats/summary" + token,
		"settings":        "GET /configz" + token,
		"log":             "GET /containerLogs/default/web/app" + token,
		"unknown pod":     "GET /containerLogs/default/web/typo" + token,
		"unknown page":    "GET /typo" + token,
		"no upgrade":      "POST /exec/default/web/app?command=ls&output=1" + token,
		"no user":         "GET /pods HTTP/1.1\r\nHost: n1\r\n\r\n",
		"no HTTP request": "hello\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPipeRig(t, &direct{exec: program}, func(o *Options) {
					o.Metrics, o.Stats, o.Config = counters(1, "a_total", "prober_a"), pages{}, func() any { return nil }
				})
				r.engine.pod = largePod(1 << 20)
				r.writeLog(text(1 << 20))
				c := r.call(t)
				c.send(request)
				if got := took(func() { <-c.cut }); got < pieceTimeout || got > pieceTimeout+10*time.Second {
					t.Errorf("cut off after %s", got)
				}
			})
		})
	}
}

// KH9: a client that reads slowly has all of a large answer, however long it takes.
func TestClientsThatReadSlowly(t *testing.T) {
	for path, want := range map[string]string{
		"/containerLogs/default/web/app":             "\nzzz",
		"/containerLogs/default/web/app?follow=true": "\nzzz",
		"/pods": `"large":"`,
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPipeRig(t, nil)
				r.engine.pod = largePod(300 << 10)
				r.writeLog(text(300 << 10))
				c := r.call(t)
				c.ask("GET", path, "")
				c.raw.most, c.raw.pause = 1<<10, time.Second
				var body []byte
				var err error
				elapsed := took(func() {
					var response *http.Response
					if response, err = http.ReadResponse(bufio.NewReader(c), nil); err == nil {
						body, err = io.ReadAll(response.Body)
					}
				})
				if err != nil || len(body) < 300<<10 || !strings.Contains(string(body), want) {
					t.Errorf("%d bytes, %v", len(body), err)
				}
				if elapsed < 2*max(pieceTimeout, scrapeTimeout) {
					t.Errorf("it took %s only, which proves nothing", elapsed)
				}
			})
		})
	}
}

// KH9: scrapers that do not read, or read less and less, have their places for a while only.
func TestScrapersLeaveTheirPlaces(t *testing.T) {
	for name, tc := range map[string]struct {
		reads bool
		most  time.Duration
	}{
		"none is read":  {false, pieceTimeout},
		"read by drops": {true, scrapeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "a_total", Help: text(300 << 10)}))
				r := newPipeRig(t, nil, func(o *Options) { o.Metrics = registry })
				crowd := make([]*caller, maxScrapes)
				for i := range crowd {
					crowd[i] = r.call(t)
					crowd[i].ask("GET", "/metrics", "")
					if tc.reads {
						crowd[i].raw.most, crowd[i].raw.pause = 1<<10, time.Second
						go func() { _, _ = io.Copy(io.Discard, crowd[i]) }()
					}
				}
				synctest.Wait()
				scrape := func() int {
					c := r.call(t)
					c.ask("GET", "/metrics", "Connection: close\r\n")
					response, err := http.ReadResponse(bufio.NewReader(c), nil)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, response.Body)
					return response.StatusCode
				}
				if code := scrape(); code != http.StatusServiceUnavailable {
					t.Errorf("one too many: %d", code)
				}
				elapsed := took(func() {
					for _, c := range crowd {
						<-c.cut
					}
				})
				if elapsed > tc.most+10*time.Second {
					t.Errorf("they stayed for %s", elapsed)
				}
				if code := scrape(); code != http.StatusOK {
					t.Errorf("after they were cut off: %d", code)
				}
			})
		})
	}
}

// KH9: a client that follows a log and takes nothing, because of a pause for example, stays for hours, not forever.
func TestFollowersThatPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, nil)
		ended := make(chan error, 1)
		r.engine.log = func(_ context.Context, _ containerlog.Options, w io.Writer) error {
			for {
				if _, err := io.WriteString(w, "a line\n"); err != nil {
					ended <- err
					return err
				}
			}
		}
		c := r.call(t)
		c.ask("GET", "/containerLogs/default/web/app?follow=true", "")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			<-time.After(3 * time.Hour)
			if _, err := io.ReadFull(response.Body, make([]byte, 8<<10)); err != nil {
				t.Fatal(err)
			}
		}
		if got := took(func() { <-c.cut }); got < 4*time.Hour || got > 4*time.Hour+time.Minute {
			t.Errorf("cut off after %s", got)
		}
		<-ended
	})
}

// KH9: a log that is quiet for longer than any limit still reaches its follower.
func TestQuietLogIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, nil)
		r.engine.log = func(_ context.Context, _ containerlog.Options, w io.Writer) error {
			for range 3 {
				<-time.After(24 * time.Hour)
				if _, err := io.WriteString(w, "a line\n"); err != nil {
					return err
				}
			}
			return nil
		}
		c := r.call(t)
		c.ask("GET", "/containerLogs/default/web/app?follow=true", "")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != "a line\na line\na line\n" {
			t.Errorf("%q, %v", body, err)
		}
	})
}

// KH9: a client that sends a request slowly, or one that does not end, is cut off.
func TestClientsThatSendSlowly(t *testing.T) {
	for name, tc := range map[string]struct {
		begin, more string
		most        time.Duration
		answer      string // of several answers the last one
	}{
		"no handshake":         {"", "", headerTimeout, ""},
		"a header":             {"GET /pods HTTP/1.1\r\n", "A: a\r\n", headerTimeout, ""},
		"a body":               {"GET /pods HTTP/1.1\r\nHost: n1\r\nContent-Length: 1000\r\n\r\n", "x", bodyTimeout, "408 Request Timeout"},
		"a body without end":   {"GET /pods HTTP/1.1\r\nHost: n1\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", bodyTimeout, "408 Request Timeout"},
		"no body, though told": {"POST /pods HTTP/1.1\r\nHost: n1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", "", bodyTimeout, "408 Request Timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newPipeRig(t, nil)
				c := r.call(t)
				var answer []byte
				var talk sync.WaitGroup
				if tc.begin != "" {
					c.send(tc.begin)
					talk.Go(func() { answer, _ = io.ReadAll(c) })
				}
				talk.Go(func() {
					for tc.more != "" {
						if _, err := io.WriteString(c, tc.more); err != nil {
							return
						}
						<-time.After(time.Second)
					}
				})
				if got := took(func() { <-c.cut }); got < tc.most || got > tc.most+10*time.Second {
					t.Errorf("cut off after %s", got)
				}
				talk.Wait()
				if !strings.Contains(string(answer), tc.answer) {
					t.Errorf("answered with %q, want %q", answer, tc.answer)
				}
			})
		})
	}
}

// KH9: a body that ends is read and means nothing; a large one is refused.
func TestBodiesOfRequests(t *testing.T) {
	r := newRig(t, nil)
	for size, want := range map[int]int{1: http.StatusOK, maxBody: http.StatusOK, maxBody + 1: http.StatusRequestEntityTooLarge} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.address+"/healthz", strings.NewReader(text(size)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer good")
		response, err := r.client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%d bytes: %d, want %d", size, response.StatusCode, want)
		}
	}
}

// KH9: a client that opens a stream and takes nothing of what it says stays for hours, not forever; its command ends.
func TestStreamsThatAreNotRead(t *testing.T) {
	const hours = 4 * time.Hour
	for name, tc := range map[string]struct {
		open func(t *testing.T, r *rig, c *caller)
		most time.Duration
		runs bool
	}{
		"SPDY":                               {openSPDY, hours, true},
		"WebSocket":                          {openWebSocket, hours, true},
		"WebSocket that talks":               {func(t *testing.T, r *rig, c *caller) { openWebSocket(t, r, c); c.resizeHourly() }, hours, true},
		"passed on":                          {openForward, hours, false},
		"WebSocket whose answer is not read": {func(_ *testing.T, _ *rig, c *caller) { c.askWebSocket() }, pieceTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{})
				r := newPipeRig(t, &direct{exec: func(_ context.Context, _ string, _ []string, s cri.Streams) error {
					defer close(ended)
					return flood(s.Stdout)
				}})
				c := r.call(t)
				tc.open(t, r, c)
				if got := took(func() { <-c.cut }); got < tc.most || got > tc.most+10*time.Second {
					t.Errorf("cut off after %s", got)
				}
				if tc.runs {
					<-ended
				}
			})
		})
	}
}

// KH9: a command that is silent for longer than any limit ends with its own end, if its client is there.
func TestSilentCommandGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, &direct{exec: func(ctx context.Context, _ string, _ []string, _ cri.Streams) error {
			select {
			case <-time.After(24 * time.Hour):
			case <-ctx.Done():
				t.Error("the command was ended")
			}
			return nil
		}})
		c := r.call(t)
		openWebSocket(t, r, c)
		said, _ := io.ReadAll(c)
		if !strings.Contains(string(said), `"status":"Success"`) {
			t.Errorf("%d bytes, without the command's end", len(said))
		}
	})
}

// flood writes until it cannot.
func flood(w io.Writer) error {
	for {
		if _, err := io.WriteString(w, text(40<<10)); err != nil {
			return err
		}
	}
}

// upgrade asks for a stream and reads the answer alone.
func (c *caller) upgrade(method, path, to string) {
	c.t.Helper()
	c.ask(method, path, "Connection: Upgrade\r\nUpgrade: "+to+"\r\n")
	response, err := http.ReadResponse(bufio.NewReaderSize(&oneByOne{c}, 16), nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		c.t.Fatalf("%+v, %v", response, err)
	}
}

// oneByOne reads not a byte too much.
type oneByOne struct{ io.Reader }

func (r *oneByOne) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }

const execPath = "/exec/default/web/app?command=flood&output=1"

// openSPDY opens the streams of a command.
func openSPDY(t *testing.T, _ *rig, c *caller) {
	c.upgrade("POST", execPath, "SPDY/3.1\r\nX-Stream-Protocol-Version: "+remotecommand.StreamProtocolV4Name)
	conn, err := spdy.NewClientConnection(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for _, kind := range []string{remotecommand.StreamTypeError, remotecommand.StreamTypeStdout} {
		if _, err := conn.CreateStream(http.Header{remotecommand.StreamType: {kind}}); err != nil {
			t.Fatal(err)
		}
	}
}

const webSocketLines = "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: " +
	remotecommand.StreamProtocolV5Name + "\r\nOrigin: http://n1"

func openWebSocket(_ *testing.T, _ *rig, c *caller) { c.upgrade("GET", execPath, webSocketLines) }

// askWebSocket does not even read the answer.
func (c *caller) askWebSocket() {
	c.ask("GET", execPath, "Connection: Upgrade\r\nUpgrade: "+webSocketLines+"\r\n")
}

// resizeHourly goes on talking.
func (c *caller) resizeHourly() {
	go func() {
		for {
			select {
			case <-c.cut:
				return
			case <-time.After(time.Hour):
			}
			if _, err := c.Write([]byte("\x82\x83\x00\x00\x00\x00\x04{}")); err != nil {
				return
			}
		}
	}()
}

// openForward opens a stream that goes through to a stream server.
func openForward(_ *testing.T, r *rig, c *caller) {
	s := &r.server.streams
	s.urls = &remote{url: "http://127.0.0.1:1/token"}
	s.dial = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			if _, err := http.ReadRequest(bufio.NewReader(far)); err != nil {
				r.Error(err)
			}
			_, _ = io.WriteString(far, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
			_ = flood(far)
		}()
		return near, nil
	}
	c.upgrade("POST", execPath, "SPDY/3.1")
}

// silent is a stream server that takes what it is sent, also over TLS, and never answers.
func silent(r *rig, over string) func(far net.Conn) {
	return func(far net.Conn) {
		var in io.Reader = far
		if over == "TLS" {
			in = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{r.ca.issue("stream server", x509.ExtKeyUsageServerAuth)}, MinVersion: tls.VersionTLS12})
		}
		_, _ = io.Copy(io.Discard, in)
	}
}

// KH6, KH9: a stream server that takes a request and never answers, or not even a handshake, holds a stream for a time only,
// and not beyond its client and the server.
func TestStreamServerThatDoesNotAnswer(t *testing.T) {
	for way, ask := range map[string]func(c *caller){
		"SPDY": func(c *caller) { c.ask("POST", execPath, "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n") },
		"port-forward": func(c *caller) {
			c.ask("POST", "/portForward/default/web", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n")
		},
		"WebSocket": (*caller).askWebSocket,
	} {
		for _, how := range []string{"server http", "client http", "none http", "server TLS", "client TLS", "none TLS", "server https", "client https", "none https"} {
			who, over, _ := strings.Cut(how, " ") // https: without a handshake
			t.Run(way+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newPipeRig(t, &direct{})
					gone := make(chan struct{})
					s := &r.server.streams
					s.urls = &remote{url: strings.Replace(over, "TLS", "https", 1) + "://127.0.0.1:1/token"}
					answer := silent(r, over)
					s.dial = func(context.Context, string, string) (net.Conn, error) {
						near, far := net.Pipe()
						go func() { defer close(gone); answer(far) }()
						return near, nil
					}
					c := r.call(t)
					ask(c)
					said := make(chan string, 1)
					go func() { answer, _ := io.ReadAll(c); said <- string(answer) }()
					synctest.Wait()
					switch who {
					case "server":
						if elapsed := took(func() { _ = r.stop() }); elapsed > closeGrace {
							t.Errorf("the server ended after %s", elapsed)
						}
					case "client":
						_ = c.raw.Close()
						if elapsed := took(func() { <-gone }); elapsed > 2*heartbeatPeriod {
							t.Errorf("it ended %s after its client", elapsed)
						}
					default:
						if elapsed := took(func() { <-gone }); elapsed != answerTimeout {
							t.Errorf("it ended after %s", elapsed)
						}
						synctest.Wait() // the answer is out
						_ = r.stop()
						if answer := <-said; !strings.Contains(answer, "gave no answer within 30s") {
							t.Errorf("the client was told %q", answer)
						}
						return
					}
					<-gone
					<-said
				})
			})
		}
	}
}

// KH9: a client that asks for a stream and opens none is cut off.
func TestStreamsThatDoNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, &direct{exec: program})
		c := r.call(t)
		c.upgrade("POST", execPath, "SPDY/3.1\r\nX-Stream-Protocol-Version: "+remotecommand.StreamProtocolV4Name)
		if got := took(func() { <-c.cut }); got > streamCreation+farewell+10*time.Second {
			t.Errorf("cut off after %s", got)
		}
	})
}

// KH4: what a client sends together with its request for a stream arrives.
func TestStreamWithEarlyInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 1)
		r := newPipeRig(t, nil)
		s := &r.server.streams
		s.urls = &remote{url: "http://127.0.0.1:1/token"}
		s.dial = func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				in := bufio.NewReader(far)
				if _, err := http.ReadRequest(in); err != nil {
					t.Error(err)
				}
				_, _ = io.WriteString(far, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
				line, _ := in.ReadString('\n')
				got <- line
			}()
			return near, nil
		}
		c := r.call(t)
		c.send("POST " + execPath + " HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer good\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nearly\n")
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(err)
		}
		if line := <-got; line != "early\n" {
			t.Errorf("%q", line)
		}
		<-c.cut
	})
}
