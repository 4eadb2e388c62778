// Package source has the places desired pods come from: [File], a folder of
// manifests (or one manifest) that is polled and watched, [HTTP], a URL that is
// polled, and [Channel], pods handed over by the program itself.
//
//	folder ──poll 20 s──┐
//	   └─── fsnotify ───┤ scan ─► decode ─► default, validate ─► identity ─► full set
//	                    │           (a bad file keeps its last good pod)        │
//	URL ─────poll 20 s──┤            (a bad answer keeps the last good set)       │
//	Channel.Set, Apply ─┴── default, validate ──────────────────────────────────┤
//	                                                                            ▼
//	                                                        deliver (syncloop's mux)
//
// All satisfy syncloop.Source. A source never removes a pod because of an
// error: a manifest that can no longer be read keeps the pod it defined, with
// an event and an entry in [File.Problems]; removing the file removes the pod.
// A manifest that is unreadable when the process starts has no last good pod; until
// it is repaired or removed, [File.Undecided] says that the set may lack a pod.
//
// The API server is not there to complete or refuse these pods, so this package
// does both: [Default] fills in what the API server would, [Validate] refuses
// what could not run, all problems at once. Names that reach file system paths
// are checked strictly.
//
// [ObjectDir] serves the config maps and secrets that such pods refer to, from a folder of
// its own. Its bad files keep their last good objects too.
//
// # What it is not
//
// Nothing here starts a pod or compares sets; that is the mux in package
// syncloop. There is no API source in this package.
// Rules are numbered as in docs/spec/syncloop.md.
package source
