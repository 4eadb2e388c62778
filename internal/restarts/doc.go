// Package restarts decides about restarts that somebody asked for (spec/syncloop.md OC2): which runs
// of a pod's containers are meant, and which of them have been replaced.
//
//	Choose: pod, view, names ──► runs to replace ──► Asked.With   (written down, then acted on)
//	view of a later moment ─────────────────────────► Asked.After  (what is left, how many are done)
//
// A wish names runs, not containers. An agent that is killed at any moment finds in the
// runtime which of the runs it named are still the newest of their container: those are to be replaced,
// and all others have been. So no wish is lost, and none is carried out twice.
//
// All of it is pure: values in, values out. Package recovery writes the wishes down, runtime/pods carries
// them out.
package restarts
