package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/examples/nodeagent/internal/execstream"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// exec runs a command in a running container, over a WebSocket.
func (a *agent) exec(w http.ResponseWriter, r *http.Request) {
	command := r.URL.Query()["command"]
	pod, err := a.named(r)
	var id string
	if err == nil {
		id, err = runningIn(pod, r.PathValue("container"))
	}
	switch {
	case err != nil:
	case len(command) == 0:
		err = refusal{http.StatusBadRequest, "no command"}
	case !websocket.IsWebSocketUpgrade(r):
		err = refusal{http.StatusBadRequest, "a command in a container needs a WebSocket of the protocol " + execstream.Protocol}
	}
	if err != nil {
		a.failure(w, err)
		return
	}
	if !a.streams.enter(a, w) {
		return
	}
	defer a.streams.leave()
	upgrader := websocket.Upgrader{Subprotocols: []string{execstream.Protocol}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		a.log.Debug("A WebSocket was not opened", "error", err.Error())
		return
	}
	from := r.RemoteAddr
	if p, ok := r.Context().Value(connection{}).(peer); ok {
		from = fmt.Sprintf("user %d", p.uid)
	}
	a.log.Info("A command runs in a container", "pod", pod.Namespace+"/"+pod.Name, "container", id, "for", from)
	wants := execstream.Wants{Stdin: r.FormValue("stdin") == "true", TTY: r.FormValue("tty") == "true"}
	execstream.Serve(a.over, conn, wants, func(ctx context.Context, s cri.Streams) error {
		return execIn(ctx, a.runtime, id, command, s)
	})
}

// runningIn returns the runtime's ID of the named container, which must be running.
func runningIn(pod *v1.Pod, name string) (string, error) {
	name, err := containerOf(pod, name)
	if err != nil {
		return "", err
	}
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name != name || list[i].State.Running == nil {
				continue
			}
			if id, err := runtime.ParseContainerID(list[i].ContainerID); err == nil {
				return id.ID, nil
			}
		}
	}
	return "", refusal{http.StatusConflict, fmt.Sprintf("container %q of pod %s/%s is not running; nodeagent explain says why", name, pod.Namespace, pod.Name)}
}

// execIn runs a command through the runtime itself, or through the stream server that the runtime names.
func execIn(ctx context.Context, from cri.Reader, id string, command []string, s cri.Streams) error {
	switch rt := from.(type) {
	case cri.DirectStreamer:
		return rt.ExecStream(ctx, id, command, s)
	case cri.Streamer:
		answer, err := rt.Exec(ctx, &runtimeapi.ExecRequest{
			ContainerId: id, Cmd: command, Tty: s.TTY, Stdin: s.Stdin != nil, Stdout: true, Stderr: !s.TTY,
		})
		if err != nil {
			return err
		}
		return streamAt(ctx, answer.GetUrl(), s)
	}
	return errors.New("the container runtime runs no commands in containers")
}

// streamAt connects to a stream server of this machine. Another machine's is refused: it would
// receive what the user types, and could answer in place of the container.
func streamAt(ctx context.Context, text string, s cri.Streams) error {
	to, err := url.Parse(text)
	if err != nil {
		return errors.New("the URL of the container runtime's stream server cannot be read")
	}
	ip := net.ParseIP(to.Hostname())
	if to.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) || to.User != nil {
		return fmt.Errorf("the container runtime's stream server is at %q, not on loopback: configure it to listen on 127.0.0.1", to.Host)
	}
	noProxy := func(*http.Request) (*url.URL, error) { return nil, nil }
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: to.Host, Proxy: noProxy}, http.MethodPost, to)
	if err != nil {
		return err
	}
	options := remotecommand.StreamOptions{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Tty: s.TTY}
	if s.Resize != nil {
		options.TerminalSizeQueue = sizeQueue{ctx, s.Resize}
	}
	return executor.StreamWithContext(ctx, options)
}

// sizeQueue passes on terminal sizes until the stream ends.
type sizeQueue struct {
	ctx  context.Context
	from <-chan cri.TerminalSize
}

// Next implements [remotecommand.TerminalSizeQueue].
func (q sizeQueue) Next() *remotecommand.TerminalSize {
	select {
	case size, ok := <-q.from:
		if !ok {
			return nil
		}
		return &remotecommand.TerminalSize{Width: size.Width, Height: size.Height}
	case <-q.ctx.Done():
		return nil
	}
}

// keptRefusal is how much of an answer a dialer keeps that is no WebSocket.
const keptRefusal = 1024

// dialExec opens the client's end.
func (c *apiClient) dialExec(ctx context.Context, path string, query url.Values, stdin, tty bool) (*websocket.Conn, error) {
	query.Set("stdin", strconv.FormatBool(stdin))
	query.Set("tty", strconv.FormatBool(tty))
	target := path + "?" + query.Encode()
	if len(target) > maxHeader { // the agent would close the connection while it is still being written
		return nil, errTooLong
	}
	dialer := websocket.Dialer{Subprotocols: []string{execstream.Protocol}, HandshakeTimeout: c.patience}
	if c.address.socket != "" {
		dialer.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.address.socket)
		}
	}
	header := http.Header{}
	c.authorize(header)
	conn, response, err := dialer.DialContext(ctx, "ws"+c.base[len("http"):]+target, header)
	if response == nil && err != nil {
		return nil, c.unreachable(err)
	}
	defer response.Body.Close()
	if err == nil {
		return conn, nil
	}
	if response.ContentLength < 0 || response.ContentLength > keptRefusal { // the agent says the same without a WebSocket
		asked, done := context.WithTimeout(ctx, c.patience)
		defer done()
		if whole, err := c.do(asked, http.MethodGet, target); err == nil {
			defer whole.Body.Close()
			response = whole
		}
	}
	if err := c.accept(http.MethodGet, path, response); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the agent answers %s where it should open a WebSocket", response.Status)
}
