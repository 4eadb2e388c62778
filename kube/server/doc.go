// Package server is the HTTPS server of a node: kubectl logs, exec, attach and port-forward reach the
// containers through it (docs/spec/kube.md, KH).
//
//	API server ─TLS─► access ─► routes ─► /containerLogs ─► Engine.ContainerLog
//	kubectl            │  │                /exec, /attach ─┬─► cri.DirectStreamer
//	                   │  └ SubjectAccessReview            └─► URL of cri.Streamer (loopback)
//	                   └ client certificate, TokenReview   /portForward ─► the same
//	                                                       /stats, /metrics/resource... ─► package stats
//
// Every request is authenticated and authorised before it is looked at. Decisions of the API server
// are cached for a while; when the server is unavailable, cached ones hold until they expire, and
// then nothing is allowed. There is no anonymous access, no plain HTTP and no /run.
//
// A stream belongs to its connection. It ends with its container, with its client and with
// [Server.Serve], which returns when all its goroutines have ended. A client that does not read
// what it asked for, or does not finish its request, is cut off after a while (KH9).
package server
