package pods

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/outbound"
	"github.com/podwright/podwright/internal/podinfo"
)

// hookAgent is the user agent of HTTP hooks.
const hookAgent = "kube-lifecycle/" + podinfo.KubernetesMinor

// httpHook sends the request of an httpGet hook. Any answer is a success.
func (m *Manager) httpHook(ctx context.Context, h hook) error {
	get := h.handler.HTTPGet
	host, call, err := m.hookTarget(ctx, h)
	if err != nil {
		return fmt.Errorf("httpGet hook: %w", err)
	}
	address, err := podinfo.RequestURL(get, h.ports, host)
	if err != nil {
		return fmt.Errorf("httpGet hook: %w", err)
	}
	err = m.sendHook(ctx, h, call, address, true)
	if err == nil || address.Scheme != "https" || !isPlainAnswer(err) {
		return err
	}
	// The server speaks plain HTTP: try again that way, without credentials.
	address.Scheme = "http"
	if m.sendHook(ctx, h, call, address, false) != nil {
		return err
	}
	h.event(v1.EventTypeWarning, "LifecycleHTTPFallback",
		"request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", address.Host)
	return nil
}

// hookTarget returns the host of an httpGet hook, and what the connection is for. The pod's
// sandbox says whether the pod is on the node's network, because a kill may know nothing
// else of the pod. A pod whose sandbox cannot be read counts as not being on it (15.4).
func (m *Manager) hookTarget(ctx context.Context, h hook) (host string, call outbound.Call, err error) {
	named := outbound.Named(h.handler.HTTPGet.Host, h.podIP)
	call = outbound.Call{UID: h.podUID, Host: named}
	if named == "" && h.podIP != "" {
		return h.podIP, call, nil
	}
	address, hostNetwork, err := m.podAddress(ctx, h.podUID)
	if named == "" {
		return address, call, err
	}
	call.Host, call.HostNetwork = outbound.Named(named, address), hostNetwork
	return named, call, nil
}

// isPlainAnswer reports whether err means that a TLS handshake was answered in
// plain HTTP.
func isPlainAnswer(err error) bool {
	var header tls.RecordHeaderError
	return errors.Is(err, http.ErrSchemeMismatch) ||
		(errors.As(err, &header) && string(header.RecordHeader[:]) == "HTTP/")
}

// sendHook makes one request on a connection of its own.
func (m *Manager) sendHook(ctx context.Context, h hook, call outbound.Call, address *url.URL, credentials bool) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return err
	}
	var host string
	if request.Header, host = podinfo.RequestHeaders(h.handler.HTTPGet.HTTPHeaders, hookAgent); host != "" {
		request.Host = host
	}
	if !credentials {
		request.Header.Del("Authorization")
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: outbound.MaxHeaders,
		// The node can rarely verify a pod's certificate.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return m.dialer.Dial(ctx, call, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if !outbound.SameServer(next.URL, via[0].URL) || len(via) >= 10 {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
	response, err := client.Do(request)
	if err != nil {
		return outbound.Plain(err)
	}
	h.answered.Store(true)
	defer response.Body.Close() //nolint:errcheck // nothing is left to lose
	return readAnswer(ctx, response.Body)
}

// readAnswer reads the beginning of a body: a server that is still at work may have sent its headers, and
// would be cut off. How the body ends does not matter.
func readAnswer(ctx context.Context, body io.Reader) error {
	if _, err := io.CopyN(io.Discard, body, outbound.MaxBody); err != nil {
		return ctx.Err()
	}
	return nil
}

// refusal returns why the node refused to connect for a hook, for the hook's event:
// unlike other errors it cannot contain a secret. It is empty if something else failed.
func refusal(err error) string {
	var refused *outbound.Refused
	if !errors.As(err, &refused) {
		return ""
	}
	return ": " + refused.Error()
}
