// Package cleanup cleans up what no source desires: it forgets finished pods, restarts pods that
// came back under the same UID, finishes pods that never ran, kills running pods that are not
// known, and removes what gone pods left in the runtime and on disk.
//
//	cgroups ───────┐
//	desired pods ──┤ fence                                 fence
//	workers ───────┴─► SyncKnownPods ─┐               ┌─► restart, finish, kill orphans
//	runtime ──fresh list of running───┼─► makePlan ──►┤
//	statuses, folders, user IDs,      │   (pure)      ├─► remove content, folders, logs,
//	mirror pods, what runtime/pods ───┘      │        │   user IDs, cgroups, mirror pods
//	would collect                            │        └─► dead containers and sandboxes
//	                                         │            (guard, veto and rate asked again)
//	                                         └─► Plan: every candidate with the reason,
//	                                             or the rule that forbids it
//
// A pass first decides, then acts (HK3): makePlan is a function over values; [Housekeeper] reads
// its input, executes it and asks the guard again right before acting. A dry run
// ([Housekeeper.Plan]) is the same code without the last step (DR2); it also lists what living pods
// keep.
//
// # What is never done
//
//   - Nothing is removed before all sources have been seen (SG1).
//   - A pod that is desired, known to the workers or running keeps everything but the dead
//     containers that the policy does not keep (ND2).
//   - A pod that this process has never known is left alone while a source cannot
//     name all pods it wants, because a manifest has been unreadable since the start:
//     the pod may come from that manifest (ND2).
//   - A failed runtime list stops every decision that needs it, and nothing else
//     (HK4, ND11).
//   - A restarted pod is not killed as an orphan in the same pass (HI4): both
//     decisions use one list, and restarts come first (HI11).
//
// # What it is not
//
// Which dead containers of a live pod are kept is decided by the collector (package runtime/pods),
// and which images are removed by package cleanup/imagegc. Cgroups, user IDs and mirror pods are
// reached through the small interfaces [Cgroups], [UserRanges] and [Mirrors]. Rules are numbered as
// in docs/spec/cleanup.md.
package cleanup
