// Package source provides the sources of desired pods: [File] polls and watches a
// folder of manifests (or one manifest), [HTTP] polls a URL, and [Channel] takes
// pods from the program.
//
//	folder ──poll 20 s──┐
//	   └─── fsnotify ───┤ scan ─► decode ─► default, validate ─► identity ─► full set
//	                    │           (a bad file keeps its last good pod)        │
//	URL ─────poll 20 s──┤            (a bad answer keeps the last good set)       │
//	Channel.Set, Apply ─┴── default, validate ──────────────────────────────────┤
//	                                                                            ▼
//	                                                        deliver (syncloop's mux)
//
// All of them implement syncloop.Source. A source never removes a pod because of an
// error: a manifest that can no longer be read keeps the pod it defined, with
// an event and an entry in [File.Problems]. Removing the file removes the pod.
// A manifest that is unreadable when the process starts has no last good pod; until
// it is repaired or removed, [File.Undecided] says that the set may lack a pod.
//
// No API server completes or refuses these pods, so this package does both:
// [Default] fills in what the API server would, and [Validate] refuses pods that
// could not run and reports all their problems at once. It checks names that reach
// file system paths strictly.
//
// [ObjectDir] serves the config maps and secrets that these pods refer to, from a folder of
// its own. A bad file there keeps its last good objects too.
//
// # What it is not
//
// This package does not start pods or compare sets; the mux in package syncloop
// compares them. It has no API source.
// Rules are numbered as in docs/spec/syncloop.md.
package source
