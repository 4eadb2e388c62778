// Package node looks after the node as a whole: what concerns all pods, or none of them.
//
//	The node as it is
//	  Health ────────────────────► may pods be set up? is the network up?
//	  Self, Description, State ──► its addresses, labels and conditions
//	  Matching ──────────────────► what pods that ask for a certain node are compared with
//	  Problems ──────────────────► what waits too long, of all parts
//	  Residents, Occupants ──────► the pods that concern it; those that have a place on it
//	  Shown ─────────────────────► the pods as others may see them
//
//	Stops pods, or lets them come back
//	  Preemption ────────────────► makes room for critical pods, before admission
//	  Evictions, OnePod ─────────► evicts pods when something runs out, or one on request
//	  Restarts ──────────────────► restarts one pod's containers on request
//	  Shutdown ──────────────────► stops pods because the node stops
//	  Drain ─────────────────────► stops pods because their owner asks for it
//	  Returns ───────────────────► lets stopped static pods come back
//
//	Keeps pods up to date
//	  Resizer, Grants ───────────► resources of running pods change
//	  Objects, Wakes ────────────► config maps, secrets and volumes change
//	  Overheads ─────────────────► the overhead that a pod's runtime class adds
//
//	Cleans up
//	  Images, PullRecords ───────► unused images
//	  DeadContainers, Contents ──► containers that have ended, and what pods leave behind
//
//	Outside
//	  Hooks ─────────────────────► what an agent does for its node (nodehooks.Hooks)
//	  Users, Events ─────────────► the embedding program's functions and recorder, which may panic or hang
//	  Streams, Logs ─────────────► exec, attach, port forwarding; logs of containers
//
//	Joins two parts
//	  Dispatcher, Changes ───────► work of the loop for the workers; changes for the loop
//	  WorkerViews, KnownViews, Probed ─► what the runtime shows, for workers, recovery and probes
//	  Mirrored, OrphanedMirrors, WantedMirrors ─► mirror pods, for workers and housekeeping
//	  PodCgroups ────────────────► pods' cgroups, for housekeeping
//
// Each type declares the few methods that it needs of its neighbors. None of them knows how the
// engine is composed.
package node
