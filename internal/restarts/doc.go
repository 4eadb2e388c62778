// Package restarts decides about requested restarts (spec/syncloop.md OC2): which runs of a pod's
// containers are meant, and which of them have been replaced.
//
//	Choose: pod, view, names ──► runs to replace ──► Asked.With   (written down, then acted on)
//	view of a later moment ─────────────────────────► Asked.After  (what is left, how many are done)
//
// A request names runs, not containers. After an agent is killed at any moment, the runtime shows
// which of the named runs are still the newest of their container: those have yet to be replaced,
// and all others have been. So no request is lost, and none is carried out twice.
//
// All of it is pure: values in, values out. Package recovery records the requests, and runtime/pods
// carries them out.
package restarts
