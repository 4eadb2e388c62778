package probe

import (
	"cmp"
	"context"
	"net"
	"strconv"

	"github.com/podwright/podwright/internal/outbound"
	"github.com/podwright/podwright/internal/podinfo"
)

// tcpHandler connects and closes without sending anything (5.8).
type tcpHandler struct{ dialer *outbound.Dialer }

// Probe connects. Only a bad port, and what the node lacks, is an error.
func (h tcpHandler) Probe(ctx context.Context, t Target) (Outcome, error) {
	number, err := podinfo.Port(t.Probe.TCPSocket.Port, t.Container.Ports)
	if err != nil {
		return Outcome{}, err
	}
	host := cmp.Or(t.Probe.TCPSocket.Host, t.PodIP)
	if host == "" {
		return failed(noAddress), nil
	}
	conn, err := connect(ctx, h.dialer, t.call(t.Probe.TCPSocket.Host), "tcp", net.JoinHostPort(host, strconv.Itoa(number)))
	if ownFault(err) {
		return Outcome{}, err
	}
	if err != nil {
		return failed("%v", err), nil
	}
	if err := conn.Close(); err != nil {
		return Outcome{Result: Success, Output: err.Error()}, nil
	}
	return Outcome{Result: Success}, nil
}
