// Package podsource delivers the pods that an API server has bound to this node, as the
// engine's source [syncloop.SourceAPI].
//
//	API ── list, then watch ──► Reflector ──► store ──► full set ──► deliver ──► Engine
//	                               ▲            │ ▲                     newest set only
//	       fresh list after        │            │ └── revision of the last run (file)
//	       3 min of silence ───────┘            ▼
//	                                         Lookup ──► statussink
//
// The reflector of client-go lists, watches and repeats. This package adds what it lacks:
//
//   - A watch that says nothing for 3 minutes, not even a bookmark, is not believed: the
//     pods are listed again. That is how a watch looks whose API server was restored from
//     a backup, and one whose connection died without a word.
//   - The revision last seen is kept on disk. A list that is older, as after a restored
//     backup, is refused for a minute, and then accepted with an event.
//
// Whatever fails, the set that was delivered last stays: no pod is removed because an API
// server is away. Only a complete list, or an event, removes one.
//
// Rules are those of docs/spec/kube.md, KS.
package podsource
