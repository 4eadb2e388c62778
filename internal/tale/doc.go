// Package tale compares pods' lives as the world outside sees them: what was told of them, how their
// containers ended, what the runtime had at quiet moments. Tests that kill an agent compare a life that was
// disturbed with one that was not.
//
//	statuses ──► Tell ──┐
//	runtime ──► See ────┼──► Tale ──► Join (other undisturbed lives) ──► Differences
//	starts ──► Started ─┘
//
// A disturbed life may lack a status that passed while no agent was there to see it, never one that
// lasts. What was told is never taken back.
package tale
