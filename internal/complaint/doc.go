// Package complaint keeps one lasting failure from filling the log: an attempt that is
// repeated every second is logged when it begins to fail, when its error changes, twice a
// minute while it keeps failing, and when it works again.
//
//	attempt ──err──► Complaint.Note ──► "… failed" (first, changed, every 30 s)
//	attempt ──nil──►                ──► "… works again" (once)
//
// [Kind] tells whether a failure is the one before, for what is logged only when it is news.
package complaint
