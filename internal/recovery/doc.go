// Package recovery holds what outlives the agent: what the agent records while it runs, and what a
// starting agent makes of that (spec/cleanup.md 10, spec/status.md 9).
//
// While the agent runs, a [Journal] stands between the rooms and the keeper of the records. Each
// room sees only the part that it needs:
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
//	Load      the records are read; statuses and probe results are known again, and the
//	          containers on record will be read even if the first list lacks them
//	Run       waits until the runtime has been read
//	          compares the records with what runs
//	          reports the result
//	          opens the gate: from now on pods are set up
//	Complete  the first update of each pod is completed by its record: a pod that
//	          has ended stays ended, a pod that had to stop continues to stop
//	source    stands in for a source that does not answer ([Journal.Remembering])
//	Pruner    removes records that are no longer of use, and reports the end of pods that
//	          ended unseen (CK7, HI7); a record that is kept only for a sink is retired,
//	          and decides nothing about the next life of its UID (IN10)
//
// No read triggers a step. Before the gate opens, no pod is set up or removed. Decisions
// are pure functions of records and facts: compare, continuationOf, fateOf, noteFacts.
//
// A UID can have several lives: a static pod that its source removed and wants again keeps its UID.
// [Journal.Renew] begins a new life; what the runtime still has of the earlier one is removed
// before it could count ([Journal.EarlierLife]).
package recovery
