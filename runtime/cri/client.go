package cri

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/timing"
)

// Defaults of [Options].
const (
	defaultConnectTimeout = 5 * time.Second
	defaultCallTimeout    = 2 * time.Minute
)

// maxMessageSize is the size containerd and CRI-O use themselves, reached at
// about 11,000 containers in one list.
const maxMessageSize = 16 << 20

// Pauses between attempts to connect again.
const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMax   = 3 * time.Second
)

// Options configures a [Client]. The zero value is ready to use.
type Options struct {
	// ConnectTimeout limits [Dial]: how long to wait for a runtime that is
	// just starting. 0 means 5 s.
	ConnectTimeout time.Duration
	// CallTimeout is the limit of one ordinary call; others derive from it,
	// see the package comment. 0 means 2 min.
	CallTimeout time.Duration
	// PullStallTimeout ends a pull that makes no visible progress for this long, with
	// runtime.ErrDeadline. 0 means no such limit: then a pull ends only once the runtime has not
	// answered ImageFsInfo for 5 min. Negative: not then either.
	//
	// CRI reports no progress of a pull, so it is read from the node: the usage of the
	// image file systems that ImageFsInfo names must change, as the runtime or the
	// kernel reports it. A runtime need not show a download there before it is complete:
	// it may keep it elsewhere, or in a place that this process does not reach. The limit then
	// ends a large image on a slow line, each time again. Set it only for a runtime that is known to
	// show its downloads, and that has no stall limit of its own (containerd has
	// image_pull_progress_timeout since 1.7). Anything else that writes to these file
	// systems counts as progress too, so the limit may come late, or never on a busy disk.
	//
	// A runtime that stops answering makes no progress. Where no usage can be
	// read, on a runtime without ImageFsInfo, the limit does not apply as long
	// as the runtime answers.
	PullStallTimeout time.Duration
	// UnaryLists turns off the streaming list calls, which are otherwise used
	// with runtimes that have them.
	UnaryLists bool
	// Meter makes the instruments kubelet_runtime_operations_total, _errors_total and
	// _duration_seconds. Nil means nothing is measured.
	Meter metric.Meter
	// Clock drives the limits of connecting, of calls and of stalled pulls. Nil means
	// the real clock.
	Clock clock.WithTicker

	// intercept watches calls in tests, statfs stands in for the kernel's.
	intercept grpc.UnaryClientInterceptor
	statfs    func(path string, out *unix.Statfs_t) error
}

func (o Options) withDefaults() Options {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = defaultConnectTimeout
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = defaultCallTimeout
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.statfs == nil {
		o.statfs = unix.Statfs
	}
	return o
}

// Client is a connection to one runtime. All methods may be called from any number of
// goroutines at once and keep the contracts of [RuntimeService] and [ImageService].
type Client struct {
	endpoint string
	conn     *grpc.ClientConn
	runtime  runtimeapi.RuntimeServiceClient
	images   runtimeapi.ImageServiceClient
	options  Options
	lists    listing
	measured *operations
	// kernel has the calls about file systems.
	kernel *foreign.Calls
}

var (
	_ RuntimeService = (*Client)(nil)
	_ ImageService   = (*Client)(nil)
	_ EventStreamer  = (*Client)(nil)
)

// Dial connects to the runtime that serves CRI v1 at endpoint, "unix:///path" or
// an absolute path, and asks for its version. It waits up to
// Options.ConnectTimeout for a runtime that is not up yet. A wrong endpoint or a
// socket without permission fails at once. The
// error names the endpoint and says what to do. ctx limits Dial only; the
// caller must [Client.Close] the client.
func Dial(ctx context.Context, endpoint string, options Options) (*Client, error) {
	path, err := socketPath(endpoint)
	if err != nil {
		return nil, err
	}
	c, err := newClient(endpoint, path, options.withDefaults())
	if err != nil {
		return nil, &DialError{Endpoint: endpoint, Hint: "this is a bug", Err: err}
	}
	if err := c.connect(ctx, path); err != nil {
		_ = c.conn.Close()
		return nil, err
	}
	return c, nil
}

// newClient makes the client; it does not connect yet.
func newClient(endpoint, path string, options Options) (*Client, error) {
	measured, err := newOperations(options.Meter, options.Clock)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	grpcOptions := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxMessageSize),
			grpc.MaxCallSendMsgSize(maxMessageSize),
		),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: reconnectFirst, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax,
			},
			// Longer than Dial waits, so that Dial itself notices a runtime that
			// does not answer.
			MinConnectTimeout: 2 * options.ConnectTimeout,
		}),
		// A resolver must not supply a service configuration.
		grpc.WithDisableServiceConfig(),
	}
	if options.intercept != nil {
		grpcOptions = append(grpcOptions, grpc.WithUnaryInterceptor(options.intercept))
	}
	// The path travels in the dialer, because a target is parsed as a URL and a path
	// may contain what a URL may not.
	conn, err := grpc.NewClient("passthrough:///cri", grpcOptions...)
	if err != nil {
		return nil, err
	}
	return &Client{
		endpoint: endpoint,
		conn:     conn,
		runtime:  runtimeapi.NewRuntimeServiceClient(conn),
		images:   runtimeapi.NewImageServiceClient(conn),
		options:  options,
		lists:    newListing(),
		measured: measured,
		kernel:   foreign.New(options.Clock),
	}, nil
}

// Close ends the connection. Calls under way and later ones fail with
// runtime.ErrCanceled.
func (c *Client) Close() error { return c.conn.Close() }

// noLimit is the limit of a call that may take as long as its context allows.
const noLimit time.Duration = 0

// call makes one unary call with a time limit and turns its error into [*Error].
func call[Req, Resp any](
	ctx context.Context, c *Client, op string, limit time.Duration,
	method func(context.Context, Req, ...grpc.CallOption) (Resp, error), request Req, options ...grpc.CallOption,
) (Resp, error) {
	if limit > noLimit {
		var cancel context.CancelFunc
		ctx, cancel = timing.WithTimeout(ctx, c.options.Clock, limit)
		defer cancel()
	}
	end := c.measured.begin(ctx, op)
	response, err := method(ctx, request, options...)
	end(err)
	if err != nil {
		var none Resp
		return none, c.failure(op, err)
	}
	return response, nil
}

// failure wraps the error of a call.
func (c *Client) failure(op string, err error) *Error {
	return &Error{Op: op, Endpoint: c.endpoint, Code: codeOf(op, err), Err: err}
}

// codeOf returns the code of a failed call. It is the runtime's own, except for two failures
// that some runtimes report with other codes (RT6): a name that another attempt holds, and
// an object that does not exist.
func codeOf(op string, err error) codes.Code {
	s := status.Convert(err)
	create := op == "RunPodSandbox" || op == "CreateContainer"
	switch code := s.Code(); {
	case create && (code == codes.Unknown || code == codes.FailedPrecondition) && strings.Contains(s.Message(), "is reserved"):
		return codes.AlreadyExists // containerd and CRI-O; containerd 2.3
	case namesObjects[op] && code == codes.Unknown && strings.HasSuffix(s.Message(), "ID does not exist"):
		return codes.NotFound // CRI-O
	default:
		return code
	}
}

// namesObjects lists the calls in which CRI-O passes on errors of its store. Errors of
// other calls may quote what a user wrote.
var namesObjects = map[string]bool{
	"CreateContainer": true, "ContainerStats": true, "UpdateContainerResources": true, "ReopenContainerLog": true,
}

// missingIsFine drops the error that says the object does not exist.
func missingIsFine(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}
