package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// portForward connects the client to ports of a pod.
func (s *streams) portForward(w http.ResponseWriter, r *http.Request) {
	pod, err := podOf(s.engine, r)
	if err == nil && s.urls == nil && s.ports == nil {
		err = errNoStreams()
	}
	if err == nil && !httpstream.IsUpgradeRequest(r) && !wsstream.IsWebSocketRequest(r) {
		err = &failure{http.StatusBadRequest, "Upgrade request required"}
	}
	if err != nil {
		fail(w, err)
		return
	}
	options, err := portforward.NewV4Options(r) // no ports over SPDY, where each stream names its own
	if err != nil {
		fail(w, &failure{http.StatusBadRequest, err.Error()})
		return
	}
	sandboxes, err := s.runtime.ListPodSandbox(r.Context(), &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{runtime.LabelPodUID: string(pod.UID)},
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err == nil && len(sandboxes) == 0 {
		err = &failure{http.StatusNotFound, fmt.Sprintf("sandbox of pod %q does not run", podinfo.FullName(pod.Namespace, pod.Name))}
	}
	if err != nil {
		fail(w, err)
		return
	}
	sandbox := newest(sandboxes).GetId()
	if s.urls == nil {
		s.forward(w, r, pod, sandbox, options)
		return
	}
	url, err := s.at(r.Context(), func(ctx context.Context) (string, error) {
		// The client's query does not reach the stream server.
		response, err := s.urls.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandbox, Port: options.Ports})
		return response.GetUrl(), err
	})
	if err != nil {
		fail(w, err)
		return
	}
	s.proxy(w, r, url)
}

// newest returns the newest sandbox of a pod.
func newest(list []*runtimeapi.PodSandbox) *runtimeapi.PodSandbox {
	return slices.MaxFunc(list, func(a, b *runtimeapi.PodSandbox) int {
		return cmp.Or(cmp.Compare(a.GetMetadata().GetAttempt(), b.GetMetadata().GetAttempt()), cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()))
	})
}

// forward serves the ports of a sandbox here, until the client has gone and all its connections have ended.
func (s *streams) forward(w http.ResponseWriter, r *http.Request, pod *v1.Pod, sandbox string, options *portforward.V4Options) {
	ctx, cancel := context.WithCancel(r.Context())
	f := newForwarder(ctx, pod, func(ctx context.Context, port int32, conn io.ReadWriter) error {
		return s.contain(func() error { return s.ports.ForwardPort(ctx, sandbox, port, conn) })
	})
	defer f.leave()
	defer cancel()
	if wsstream.IsWebSocketRequest(r) {
		portforward.ServePortForward(w, r, f, pod.Name, string(pod.UID), options, s.idle, streamCreation, portforward.SupportedProtocols)
		return
	}
	f.serveSPDY(w, r, s.idle)
}
