// Package server is the HTTPS server of a node: kubectl logs, exec, attach and port-forward reach the
// containers through it (docs/spec/kube.md, KH).
//
//	API server ─TLS─► access ─► routes ─► /containerLogs ─► Engine.ContainerLog
//	kubectl            │  │                /exec, /attach ─┬─► cri.DirectStreamer
//	                   │  └ SubjectAccessReview            └─► URL of cri.Streamer (loopback)
//	                   └ client certificate, TokenReview   /portForward ─► the same
//	                                                       /stats, /metrics/resource... ─► package stats
//
// Every request has a user and is authorised before anything is looked at. Decisions of the API server
// are kept for a while; without it those that are kept hold until they expire, and then
// nothing is allowed. There is no anonymous access, no plain HTTP and no /run.
//
// A stream belongs to its connection. It ends with its container, with its client and with
// [Server.Serve], which returns when nothing of it is left. A client that does not read what it asked for,
// or does not finish asking, is cut off after a while (KH9).
package server
