// Package complaint keeps one lasting failure from filling the log: what is tried
// every second says so when it begins to fail, when it fails otherwise, twice a
// minute while it goes on, and when it is over.
//
//	attempt ──err──► Complaint.Note ──► "… failed" (first, changed, every 30 s)
//	attempt ──nil──►                ──► "… works again" (once)
package complaint
