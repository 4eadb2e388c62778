// Package offline keeps on disk what pods need from an API server, so that they start without it,
// for example after a power cut on a site whose link is down.
//
//	objects, tokens ── Put, Remove ──► Cache ── Run: one file each, as a whole ──► folder, 0700
//	                ◄── Get ─────────    ▲
//	                                    └── Retain: removes what no pod needs
//
// A [Cache] has entries: a config map, a secret, the services of a namespace, a pod's token. Packages
// objects and tokens fill it with each answer of the API server, and read from it only what the server
// has not answered about since they started. It is opt-in, because it means that secrets are on disk.
//
// # Files
//
// Each entry is a file of mode 0600 that is replaced as a whole. With a [Key] it is sealed with AES-256-GCM:
// its content and the names of objects can be neither read nor changed, and no file can pass for another entry.
// Not covered: a user who can write to the folder can remove files, or restore an older file of the same entry,
// because there is no counter outside the folder; the number and sizes of files are visible.
//
// # Failures
//
// A file that is truncated, changed, foreign, or sealed with another key is skipped, and an error that names it is
// logged: its entry is missing, and pods wait for the API server. A file that cannot be written is retried for as
// long as its entry is needed; until then the previous one stays. No failure here ends the agent or a pod.
//
// The rules are KO8 in docs/spec/kube.md.
package offline
