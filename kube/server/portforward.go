package server

import (
	"context"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

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
	sandboxes, err := s.runtime.ListPodSandbox(r.Context(), &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{runtime.LabelPodUID: string(pod.UID)},
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err == nil && len(sandboxes) == 0 {
		err = &failure{http.StatusNotFound, fmt.Sprintf("sandbox of pod %q does not run", pod.Name+"_"+pod.Namespace)}
	}
	if err != nil {
		fail(w, err)
		return
	}
	if s.urls == nil {
		s.forward(w, r, pod, sandboxes[0].GetId())
		return
	}
	url, err := s.at(r.Context(), func(ctx context.Context) (string, error) {
		response, err := s.urls.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandboxes[0].GetId()})
		return response.GetUrl(), err
	})
	if err != nil {
		fail(w, err)
		return
	}
	s.proxy(w, r, url)
}

// forward serves the ports of a sandbox here, until the client has gone and all its connections have ended.
func (s *streams) forward(w http.ResponseWriter, r *http.Request, pod *v1.Pod, sandbox string) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		fail(w, &failure{http.StatusBadRequest, err.Error()})
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	f := newForwarder(ctx, s.ports, pod, sandbox)
	defer f.leave()
	defer cancel()
	if wsstream.IsWebSocketRequest(r) {
		portforward.ServePortForward(w, r, f, pod.Name, string(pod.UID), options, s.idle, streamCreation, portforward.SupportedProtocols)
		return
	}
	f.serveSPDY(w, r, s.idle)
}
