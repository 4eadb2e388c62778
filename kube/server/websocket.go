package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/podwright/podwright/runtime/cri"
)

// Channels of a WebSocket.
const (
	stdinChannel = iota
	stdoutChannel
	stderrChannel
	errorChannel
	resizeChannel
)

// v4Base64Name is the protocol v4.channel.k8s.io in text, for clients that have no use for bytes.
const v4Base64Name = "v4." + wsstream.Base64ChannelWebSocketProtocol

// protocolsOf returns the protocols of WebSockets, those of the kubelet. In the newest one, v5.channel.k8s.io, the client can
// close stdin. Consoles in browsers often use those in base64.
func protocolsOf(channels []wsstream.ChannelType) map[string]wsstream.ChannelProtocolConfig {
	protocols := wsstream.NewDefaultChannelProtocols(channels) // those before v4
	for _, name := range []string{remotecommand.StreamProtocolV5Name, remotecommand.StreamProtocolV4Name, v4Base64Name} {
		protocols[name] = wsstream.ChannelProtocolConfig{Binary: name != v4Base64Name, Channels: channels}
	}
	return protocols
}

// webSocket serves a stream over a WebSocket.
func (s *streams) webSocket(w http.ResponseWriter, r *http.Request, j job) {
	channel := func(used bool, kind wsstream.ChannelType) wsstream.ChannelType {
		if used {
			return kind
		}
		return wsstream.IgnoreChannel
	}
	channels := []wsstream.ChannelType{
		stdinChannel:  channel(j.wants.Stdin, wsstream.ReadChannel),
		stdoutChannel: channel(j.wants.Stdout, wsstream.WriteChannel),
		stderrChannel: channel(j.wants.Stderr, wsstream.WriteChannel),
		errorChannel:  wsstream.WriteChannel,
		resizeChannel: wsstream.ReadChannel,
	}
	conn := wsstream.NewConn(protocolsOf(channels))
	conn.SetIdleTimeout(s.idle)
	protocol, ends, err := conn.Open(w, r)
	if err != nil {
		s.log.V(1).Info("A WebSocket was not opened", "error", err.Error())
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	beat := heartbeat{clock: s.clock}
	streams := cri.Streams{TTY: j.wants.TTY}
	if j.wants.Stdin {
		streams.Stdin = ends[stdinChannel]
	}
	if j.wants.Stdout {
		streams.Stdout = beat.writer(ends[stdoutChannel])
	}
	if j.wants.Stderr {
		streams.Stderr = beat.writer(ends[stderrChannel])
	}
	var besides sync.WaitGroup
	sizes := make(chan cri.TerminalSize, 1)
	besides.Go(func() { readSizes(ends[resizeChannel], sizes) }) // a client may send sizes even without a terminal
	if j.wants.TTY {
		streams.Resize = sizes
	}
	// An empty message tells the client that the stream is open.
	first := errorChannel
	switch {
	case j.wants.Stdout:
		first = stdoutChannel
	case j.wants.Stderr:
		first = stderrChannel
	}
	_, _ = ends[first].Write(nil)
	besides.Go(func() { beat.run(ctx, ends[first], cancel) })
	if last := lastWords(protocol, j.run(ctx, streams)); last != nil {
		_, _ = ends[errorChannel].Write(last)
	}
	cancel()
	_ = conn.Close()
	besides.Wait()
}

// maxSize bounds the bytes that are read for a terminal size: the decoder keeps them in memory until it is complete.
const maxSize = 4 << 10

// readSizes reads terminal sizes, each a JSON object, until the connection ends. It never stops reading before, since
// what follows on the connection is the client's input.
func readSizes(from io.Reader, to chan cri.TerminalSize) {
	defer close(to)
	limited := &io.LimitedReader{R: from}
	for decoder := json.NewDecoder(limited); ; {
		limited.N = maxSize
		var size cri.TerminalSize
		err := decoder.Decode(&size)
		switch _, odd := errors.AsType[*json.UnmarshalTypeError](err); {
		case err == nil:
			replace(to, size)
		case !odd: // the end, a value that is too long, or no JSON, in which the next size cannot be found
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

// replace sends a size to a runtime, which need not take any. A channel holds one: the newest one replaces the one
// that was not taken. There must be no other sender.
func replace(to chan cri.TerminalSize, size cri.TerminalSize) {
	select {
	case <-to:
	default:
	}
	to <- size
}

// lastWords says how a stream ended (KH5), in a protocol: as a status, but before v4 as the text of an error, nil for none.
func lastWords(protocol string, err error) []byte {
	status := statusOf(err)
	switch protocol {
	case remotecommand.StreamProtocolV5Name, remotecommand.StreamProtocolV4Name, v4Base64Name:
	default:
		if err == nil {
			return nil
		}
		return []byte(status.Message)
	}
	data, err := json.Marshal(status)
	if err != nil {
		return []byte(`{"status":"Failure"}`)
	}
	return data
}

// statusOf describes how a stream ended.
func statusOf(err error) metav1.Status {
	status := metav1.Status{Status: metav1.StatusSuccess}
	var exit interface{ ExitStatus() int }
	switch {
	case err == nil:
	case errors.As(err, &exit):
		status = metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(exit.ExitStatus()),
			}}},
			Message: "command terminated with non-zero exit code: " + err.Error(),
		}
	default:
		status = metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
			Message: "error executing command in container: " + err.Error(),
		}
	}
	return status
}
