// Package kube turns an engine into a node of a Kubernetes cluster: pods come from an API server,
// and their statuses go back to it.
//
//	API ── pods ──► podsource ───────► Engine ──► statussink ──► API
//	 │                                 ▲    │
//	 ├─ config maps, secrets ► objects ┤    ├──► node: Node, Lease ──► API
//	 ├─ tokens ─────────────► tokens ──┤    └──► events ──► API
//	 │        plugins ► credentials ───┤
//	 ├─ services, runtime classes ─────┘
//	 │        disk ◄─ offline ─► objects, tokens: their last answers, for a boot without the API
//	 ├─ certs: the certificates of its clients and of its server
//	 └─ kubectl, scrapers ► server: logs, exec..., pages of stats
//
// Its packages are parts, not a program: an agent takes those it needs. This package composes all
// of them. [New] fills only the empty fields of a podwright.Config, so an agent with another source
// of config maps, or another recorder of events, sets that field and keeps its own. Only the hooks
// that register the Node, publish its status and renew its lease are always this package's; an agent
// can wrap them once New has returned. [Agent.Run] runs the engine and everything beside it.
//
// It is a separate module, because the client libraries it needs are larger than everything that
// the engine needs. The engine's module never imports it.
//
// The rules are in docs/spec/kube.md.
package kube
