// Package tale compares pods' lives as the outside world sees them: the statuses that were sent,
// how containers ended, and what the runtime had at quiet moments. Tests that kill an agent compare
// a disturbed life with an undisturbed one.
//
//	statuses ──► Tell ──┐
//	runtime ──► See ────┼──► Tale ──► Join (other undisturbed lives) ──► Differences
//	starts ──► Started ─┘
//
// A disturbed life may lack a status that passed while no agent was there to see it, but never one
// that lasts. What was sent is never taken back.
package tale
