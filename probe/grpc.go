package probe

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/outbound"
)

// maxGRPCAnswer bounds an answer of a health service, which should be a few bytes.
const maxGRPCAnswer = 64 << 10

// grpcHandler asks the health service (5.9).
type grpcHandler struct {
	dialer *outbound.Dialer
	tls    bool
}

// Probe asks once. Everything but SERVING is a failure; only what the node lacks is an error.
func (h grpcHandler) Probe(ctx context.Context, t Target) (Outcome, error) {
	g := t.Probe.GRPC
	if g.Port < 1 || g.Port > 65535 {
		return failed("port %d is not in 1-65535", g.Port), nil
	}
	if t.PodIP == "" {
		return failed(noAddress), nil
	}
	secure := insecure.NewCredentials()
	if h.tls && g.Mode != nil && *g.Mode == v1.GRPCProbeModeTLS {
		// The node can rarely verify a pod's own certificate.
		secure = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	address := net.JoinHostPort(t.PodIP, strconv.Itoa(int(g.Port)))
	var unreached atomic.Pointer[error] // why there was no connection, in the node's own words
	client, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(secure), grpc.WithUserAgent(userAgent), grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxGRPCAnswer)), grpc.WithMaxHeaderListSize(outbound.MaxHeaders),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := connect(ctx, h.dialer, t.call(""), "tcp", address)
			if err != nil {
				unreached.Store(&err)
			}
			return conn, err
		}))
	if err != nil {
		return failed("%v", err), nil
	}
	defer client.Close() //nolint:errcheck // nothing is left to lose
	request := &grpc_health_v1.HealthCheckRequest{}
	if g.Service != nil {
		request.Service = *g.Service
	}
	answer, err := grpc_health_v1.NewHealthClient(client).Check(ctx, request)
	switch code, unreached := status.Code(err), unreached.Load(); {
	case err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING:
		return Outcome{Result: Success, Output: "SERVING"}, nil
	case err == nil:
		return failed("the service answers %v", answer.GetStatus()), nil
	case code == codes.Unimplemented:
		return failed("the server has no health service"), nil
	case code == codes.Unavailable && unreached != nil && ownFault(*unreached):
		return Outcome{}, *unreached
	case code == codes.Unavailable && unreached != nil:
		return failed("health check: %s: %s", code, cut((*unreached).Error(), maxOutput)), nil
	case code == codes.DeadlineExceeded:
		return failed("health check: %s: no answer in time", code), nil
	default:
		return failed("health check: %s", code), nil // the message is the server's, and may hold secrets (5.6)
	}
}
