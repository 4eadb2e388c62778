// Package podsource delivers the pods that an API server has bound to this node, as the
// engine's source [syncloop.SourceAPI].
//
//	API ── list, then watch ──► Reflector ──► store ──► full set ──► deliver ──► Engine
//	                               ▲            │ ▲                     newest set only
//	       fresh list after        │            │ └── revision of the last run (file)
//	       3 min of silence ───────┘            ▼
//	                                         Lookup ──► statussink
//
// The reflector of client-go lists, watches and retries. This package adds what it lacks:
//
//   - A watch that sends nothing for 3 minutes, not even a bookmark, is not trusted: the
//     pods are listed again. A watch goes silent like this after the API server was restored
//     from a backup, or after its connection died.
//   - The newest revision seen is kept on disk. A list that is older, for example after a backup
//     was restored, is refused for a minute, and then accepted with an event.
//
// Whatever fails, the last delivered set stays: no pod is removed because an API server is
// unavailable. Only a complete list, or an event, removes one.
//
// The rules are KS in docs/spec/kube.md.
package podsource
