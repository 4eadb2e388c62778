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

	"github.com/go-logr/logr/funcr"
	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// KH9: a crowd of connections that show nothing has its number; the next client is let in when they have
// been cut off, and a server that is full can be stopped.
func TestConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, nil)
		call := func() (near net.Conn, taken chan struct{}) {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = near.Close() })
			taken = make(chan struct{})
			go func() {
				select {
				case r.pipes.calls <- &pipe{Conn: far, ended: make(chan struct{})}:
					close(taken)
				case <-r.pipes.ended:
				}
			}()
			return near, taken
		}
		fill := func() {
			for range maxConnections {
				_, taken := call()
				<-taken
			}
		}
		fill()
		_, taken := call()
		synctest.Wait()
		select {
		case <-taken:
			t.Error("one more than the limit was accepted")
		default:
		}
		if waited := took(func() { <-taken }); waited > headerTimeout+time.Second {
			t.Errorf("the next client waited %s", waited)
		}
		<-time.After(time.Minute)
		fill()
		if err := r.stop(); err != nil {
			t.Errorf("the end of a full server: %v", err)
		}
	})
}

// KH1: bad tokens are asked about once in 30 s.
func TestBadTokensAreKept(t *testing.T) {
	r := newRig(t, nil)
	count := func(want int) {
		t.Helper()
		for range 3 {
			if code, _ := r.get("/healthz", "bad"); code != http.StatusUnauthorized {
				t.Errorf("%d", code)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.reviews != want {
			t.Errorf("%d reviews, want %d", r.reviews, want)
		}
	}
	count(1)
	r.clock.Step(badTokenTTL - time.Second)
	count(1)
	r.clock.Step(time.Second)
	count(2)
}

// hangingTokens is an API server that answers about the token "good" alone.
type hangingTokens struct {
	authenticationclient.TokenReviewInterface
}

func (h hangingTokens) TokenReviews() authenticationclient.TokenReviewInterface { return h }

func (hangingTokens) Create(ctx context.Context, review *authentication.TokenReview, _ metav1.CreateOptions) (*authentication.TokenReview, error) {
	if review.Spec.Token != "good" {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	review = review.DeepCopy()
	review.Status = authentication.TokenReviewStatus{Authenticated: true, User: authentication.UserInfo{Username: "jane"}}
	return review, nil
}

// KH1: reviews of a flood of bad tokens that do not end hold up neither client certificates whose rights are not
// known yet nor tokens that are.
func TestFloodOfBadTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipeRig(t, nil, func(o *Options) { o.Tokens = hangingTokens{} })
		status := func(c *caller, token string) int {
			c.send("GET /healthz HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer " + token + "\r\nConnection: close\r\n\r\n")
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				return 0
			}
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body)
			return response.StatusCode
		}
		if got := status(r.call(t), "good"); got != http.StatusOK {
			t.Fatal(got)
		}
		var all sync.WaitGroup
		for i := range 3 * maxReviews {
			c := r.call(t)
			all.Go(func() { status(c, fmt.Sprint("bad", i)) })
		}
		synctest.Wait()
		joe := r.call(t)
		joe.Conn = tls.Client(joe.raw, &tls.Config{
			RootCAs: r.ca.pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12,
			Certificates: []tls.Certificate{r.ca.issue("joe", x509.ExtKeyUsageClientAuth)},
		})
		waited := took(func() {
			if got := status(joe, "none"); got != http.StatusOK {
				t.Errorf("a client certificate: %d", got)
			}
			if got := status(r.call(t), "good"); got != http.StatusOK {
				t.Errorf("a known token: %d", got)
			}
		})
		if waited > time.Second {
			t.Errorf("they waited %s", waited)
		}
		all.Wait()
	})
}

// KH1: an outage of the API server is logged once in a while, with the number of what was left out.
func TestOutageIsLoggedOnceInAWhile(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	r := newRig(t, nil, func(o *Options) {
		o.Logger = funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, args)
		}, funcr.Options{})
	})
	r.away.Store(true)
	for range 20 {
		r.get("/healthz", "good")
	}
	r.clock.Step(quietPeriod)
	r.get("/healthz", "good")
	mu.Lock()
	defer mu.Unlock()
	if len(lines) != 2 || !strings.Contains(lines[0], `"notLogged"=0`) || !strings.Contains(lines[1], `"notLogged"=19`) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}
