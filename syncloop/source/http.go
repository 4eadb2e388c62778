package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/outbound"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/syncloop"
)

const (
	defaultHTTPName    = "http"
	defaultHTTPTimeout = 10 * time.Second
	// loudFailures is how many failures are reported one by one; after one more
	// note, the source stays silent until the next success (H5).
	loudFailures = 3
)

// ErrUnavailable: the server did not answer with a manifest. It could not be
// reached or asked, its status was not 200, or its answer broke off.
var ErrUnavailable = errors.New("the server did not answer with a manifest")

// HTTPOptions configures an [HTTP] source. The zero value is useful.
type HTTPOptions struct {
	// Name of the source. Default "http".
	Name string
	// Period between polls. Default 20 s.
	Period time.Duration
	// Timeout of one request, including its body. Default 10 s.
	Timeout time.Duration
	// Header is sent with every request, and never to another host.
	Header http.Header
	// Headers, unless nil, returns further headers for each request, such as a token that is
	// renewed. If it fails, the source makes no request and keeps the last good set. The source
	// shows the text of the error, so it must not contain a header's value. One goroutine at a
	// time calls Headers, and the source waits for it.
	Headers func() (http.Header, error)
	// Transport makes the requests. If nil, the source has its own, which uses no
	// proxy and whose connections are closed when Run ends.
	Transport http.RoundTripper
	// MaxPods limits how many pods a list may have. A longer list is refused as a whole and changes
	// nothing (SRC6, [ErrTooMany]). Default 1,000; a negative number means no limit.
	MaxPods int
	// AllowAPIReferences as in [FileOptions].
	AllowAPIReferences bool

	// Recorder receives an event per reported problem. Nil drops them.
	Recorder podinfo.EventRecorder
	// Clock tells the source the time. Nil means the real clock.
	Clock clock.Clock
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives metrics. Nil drops them.
	Meter metric.Meter
}

// HTTP is a source that polls one URL for a pod or a pod list, in JSON or YAML
// (section 4.4). Make one with [NewHTTP]; methods are safe for concurrent use.
//
// An unusable answer, or no answer, changes nothing: the last good set stays. An
// empty body means that there are no pods. The source refuses a whole list for one
// invalid pod.
type HTTP struct {
	url     string
	shown   string // the URL without the parts that may be secret
	node    string
	options HTTPOptions
	decoder *decoder
	metrics *fileMetrics

	// Run holds run, which guards the next fields.
	run     chan struct{}
	last    []byte    // the body of the last good set, nil until there is one
	problem error     // the warning about it
	readAt  time.Time // when it came
	// failures since the last good answer: those of the server, and those of what it answered
	failures struct{ server, answer int }

	mu     sync.Mutex
	health syncloop.SourceHealth
	// reached is the address of the last connection to the URL itself.
	reached netip.Addr
}

// NewHTTP returns a source for the manifests at rawURL, http or https. Names and
// UIDs of the pods depend on nodeName (D1, D2, D4). The error lists all wrong
// arguments and options. NewHTTP does not make a request yet.
func NewHTTP(rawURL, nodeName string, options HTTPOptions) (*HTTP, error) {
	var problems []error
	parsed, err := url.Parse(rawURL)
	switch {
	case err != nil: // its text quotes the URL, which may hold a password
		problems = append(problems, errors.New("the URL cannot be parsed"))
		parsed = &url.URL{}
	case parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "":
		problems = append(problems, fmt.Errorf("the URL must be http://host/path or https://host/path, not scheme %q and host %q", parsed.Scheme, parsed.Host))
	}
	if options.Timeout < 0 {
		problems = append(problems, errors.New("the timeout must not be negative"))
	}
	if options.Timeout == 0 {
		options.Timeout = defaultHTTPTimeout
	}
	options.Header = options.Header.Clone()
	d, m, wrong := basics{&options.Name, &options.Period, &options.Clock, &options.MaxPods}.complete(defaultHTTPName, nodeName, options.AllowAPIReferences, options.Meter)
	problems = append(problems, wrong...)
	if len(problems) > 0 {
		return nil, fmt.Errorf("HTTP source: %w", errors.Join(problems...))
	}
	d.remote = true
	shown := url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}
	return &HTTP{
		url: rawURL, shown: shown.String(), node: nodeName, options: options, decoder: d, metrics: m,
		run: make(chan struct{}, 1),
	}, nil
}

// Name returns the source's name.
func (h *HTTP) Name() string { return h.options.Name }

// Precedence returns syncloop.PrecedenceHTTP.
func (h *HTTP) Precedence() syncloop.Precedence { return syncloop.PrecedenceHTTP }

// AllowObjects is [File.AllowObjects].
func (h *HTTP) AllowObjects() { h.decoder.objects.Store(true) }

// Health reports how the latest polls went.
func (h *HTTP) Health() syncloop.SourceHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.health
}

// Run polls until ctx ends. It delivers the first good answer and every good one
// whose body differs from the last (H3).
func (h *HTTP) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	select {
	case h.run <- struct{}{}:
		defer func() { <-h.run }()
	default:
		return errors.New("HTTP source: it runs already")
	}
	stop, err := h.metrics.observe()
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	defer stop()
	client, done := h.client()
	defer done()
	h.last, h.problem = nil, nil // the loop that now gets the pods may know nothing of an earlier Run
	for {
		if err := h.poll(ctx, client, deliver); err != nil {
			return err
		}
		if err := timing.Sleep(ctx, h.options.Clock, h.options.Period); err != nil {
			return err
		}
	}
}

// client returns the client of one Run. It follows redirects on the same host
// only, because headers may hold credentials.
func (h *HTTP) client() (client *http.Client, done func()) {
	transport, done := h.options.Transport, func() {}
	if transport == nil {
		own := &http.Transport{
			DialContext: h.dial, MaxIdleConns: 1, IdleConnTimeout: 2 * h.options.Period, MaxResponseHeaderBytes: 1 << 20,
			TLSHandshakeTimeout: h.options.Timeout, // a handshake goes on after its request has ended
		}
		transport, done = own, own.CloseIdleConnections
	}
	return &http.Client{Transport: transport, CheckRedirect: follow}, done
}

// poll makes one request. It returns an error only if deliver fails.
func (h *HTTP) poll(ctx context.Context, client *http.Client, deliver func(context.Context, []*v1.Pod) error) error {
	h.pending(h.options.Clock.Now())
	body, err := h.get(ctx, client)
	h.pending(time.Time{})
	if err != nil {
		h.failed(ctx, err)
		return nil
	}
	if h.last != nil && bytes.Equal(body, h.last) {
		h.succeeded(ctx, false)
		return nil
	}
	set, problem, err := h.decodeSet(body)
	if err != nil {
		h.failed(ctx, err)
		return nil
	}
	if err := deliver(ctx, set); err != nil {
		return err
	}
	h.last, h.problem, h.readAt = append([]byte{}, body...), problem, h.options.Clock.Now()
	h.metrics.pods.Store(int64(len(set)))
	h.succeeded(ctx, true)
	return nil
}

// pending notes since when a request is under way.
func (h *HTTP) pending(since time.Time) {
	h.mu.Lock()
	h.health.Pending = since
	h.mu.Unlock()
}

// get makes one request. Its error shows neither headers nor the query.
func (h *HTTP) get(ctx context.Context, client *http.Client) ([]byte, error) {
	ctx, cancel := timing.WithTimeout(ctx, h.options.Clock, h.options.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(context.WithValue(ctx, journeyKey{}, &journey{}), http.MethodGet, h.url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: the request cannot be made", ErrUnavailable)
	}
	if h.options.Header != nil {
		request.Header = h.options.Header.Clone()
	}
	if h.options.Headers != nil {
		headers, err := h.options.Headers()
		if err != nil {
			return nil, fmt.Errorf("%w: its headers cannot be had: %w", ErrUnavailable, err)
		}
		for name, values := range headers {
			for _, value := range values {
				request.Header.Add(name, value)
			}
		}
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, outbound.Plain(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: status %d, want 200", ErrUnavailable, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxManifestSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: its answer broke off: %w", ErrUnavailable, err)
	case len(body) > maxManifestSize:
		return nil, fmt.Errorf("%w: it is larger than %d MiB", ErrTooLarge, maxManifestSize>>20)
	}
	return body, nil
}

// decodeSet returns the pods of an answer. problem is a warning: the pods run
// all the same.
func (h *HTTP) decodeSet(body []byte) (set []*v1.Pod, problem, err error) {
	defer recoverDecoding(&set, &err)
	if len(bytes.TrimSpace(body)) == 0 { // nothing there (SRC3, H2)
		return nil, errors.New("its answer is empty, which means no pods; if there are to be some, let it fail with a status instead"), nil
	}
	answer, err := parseOnly(body)
	if err != nil {
		return nil, nil, err
	}
	documents, err := items(answer, h.options.MaxPods)
	if err != nil {
		return nil, nil, err
	}
	if alone := len(documents) == 1 && documents[0].repeated != nil; answer.repeated != nil && !alone { // else the decoder says so
		problem = fmt.Errorf("%w: %w", ErrUnknownField, answer.repeated)
	}
	for i, document := range documents {
		pod, err := h.decoder.decodeDocument(document, "url:"+h.url)
		if pod == nil {
			if len(documents) > 1 {
				err = fmt.Errorf("pod %d of %d: %w", i+1, len(documents), err)
			}
			return nil, nil, err
		}
		problem = errors.Join(problem, err)
		set = append(set, pod)
	}
	return set, problem, nil
}

// succeeded records a good answer and the warning about it, if any. It reports the warning of a fresh one.
func (h *HTTP) succeeded(ctx context.Context, fresh bool) {
	if n := h.failures.server + h.failures.answer; n > 0 {
		h.options.Logger.Info("Manifest can be read again", "url", h.shown, "failures", n)
	}
	h.failures.server, h.failures.answer = 0, 0
	h.mu.Lock()
	h.health = syncloop.SourceHealth{LastSuccess: h.options.Clock.Now()}
	if h.problem != nil {
		h.health.LastError, h.health.LastErrorAt = h.problem, h.readAt
	}
	h.mu.Unlock()
	h.metrics.kept.Store(0)
	h.metrics.broken.Store(0)
	if h.problem == nil {
		return
	}
	h.metrics.broken.Store(1)
	if fresh {
		h.report(ctx, h.problem)
	}
}

// failed records a poll that changes nothing. It reports the first few failures of the server, and
// the first few of its answers (H5).
func (h *HTTP) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the poll was cancelled
	}
	h.mu.Lock()
	h.health.LastError, h.health.LastErrorAt = err, h.options.Clock.Now()
	h.mu.Unlock()
	h.metrics.kept.Store(h.metrics.pods.Load())
	h.metrics.broken.Store(1)
	n := &h.failures.answer
	if errors.Is(err, ErrUnavailable) {
		n = &h.failures.server
	}
	*n++
	switch {
	case *n <= loudFailures:
		h.report(ctx, err)
	case *n == loudFailures+1:
		h.options.Logger.Info("Further failures of this kind are not logged until the next success", "url", h.shown)
	}
}

func (h *HTTP) report(ctx context.Context, err error) {
	reason := reasonOf(err)
	h.metrics.problem(ctx, reason)
	h.options.Logger.Error(err, "Manifest has a problem", "url", h.shown)
	if h.options.Recorder != nil {
		node := podinfo.NodeReference(h.node)
		h.options.Recorder.Eventf(node, v1.EventTypeWarning, reason, "%s", podinfo.Message(fmt.Sprintf("manifest %s: %v", h.shown, err)))
	}
}
