// Package recovery is what outlives the agent: what it writes down while it runs, and
// what an agent that starts makes of it (spec/cleanup.md 10, spec/status.md 9).
//
// While the agent runs, a [Journal] stands between the rooms and the keeper of the
// records. Each room sees the part of it that it asked for:
//
//	sources ───── Desired ──────────────────┐
//	admission ─── Verdicts ─────────────────┤
//	workers ───── Record ───────────────────┤
//	status ────── Changed, Durable ─────────┼──► checkpoint.Keeper ──► disk
//	probe ─────── ProbeMemory ──────────────┤
//	runtime/pods  Starting, BeforeRemove ───┘
//
// When an agent starts, a [Recovery] takes these steps, in this order (CK9):
//
//	Load      the records are read; statuses and probe results are known again
//	Run       waits until the runtime has been read
//	          compares the records with what runs
//	          reports the result
//	          opens the gate: from now on pods are set up
//	Complete  the first update of each pod is completed by its record: a pod that
//	          ended stays so, a pod that had to stop goes on stopping
//	source    stands in for a source that does not answer ([Journal.Remembering])
//	Pruner    removes the records that are of no more use, and tells the end of pods that
//	          ended unseen (CK7, HI7); a record that is only kept for a sink is retired,
//	          and decides nothing about the next life of its UID (IN10)
//
// No read triggers a step. Before the gate opens no pod is set up, stopped or removed.
// Decisions are pure functions of records and facts: compare, continuationOf, fateOf,
// noteFacts.
//
// A UID can have several lives: a static pod that its source removed and wants again keeps
// it. [Journal.Renew] begins a new one; what the runtime still has of the earlier one is
// removed before it counts ([Journal.EarlierLife]).
package recovery
