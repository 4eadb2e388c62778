// Package execstream carries a command in a container over a WebSocket, in the protocol
// v5.channel.k8s.io, which the clients of Kubernetes speak too.
//
//	client                                   server
//	stdin  ──► channel 0 ──────────────────► cri.Streams.Stdin
//	sizes  ──► channel 4 ──────────────────► cri.Streams.Resize
//	end of stdin ─► channel 255, of 0 ─────► io.EOF
//	stdout ◄────────────────── channel 1 ◄── Stdout
//	stderr ◄────────────────── channel 2 ◄── Stderr
//	exit code ◄─────────────── channel 3 ◄── a v1.Status, once, last
//
// A command whose client disconnects is killed. A client that does not read delays only its own
// command, or its end, and counts as gone after 4 h.
package execstream
