// Package offline keeps on disk what pods need of an API server, so that they start without it:
// after a power cut on a site whose link is down, say.
//
//	objects, tokens ── Put, Remove ──► Cache ── Run: one file each, as a whole ──► folder, 0700
//	                ◄── Get ─────────    ▲
//	                                     └── Retain: what no pod needs goes
//
// A [Cache] has entries: a config map, a secret, the services of a namespace, a pod's token. Packages
// objects and tokens fill it with each answer of the API server, and take from it only what that has
// not answered about since they began. It is opt-in, as it means that secrets are on disk.
//
// # Files
//
// Each entry is a file of mode 0600 that is replaced as a whole. With a [Key] it is sealed with
// AES-256-GCM: what it holds, and the names of the objects, can neither be read nor changed, and no file stands for
// another entry. Not covered: someone who can write to the folder can remove files, or put back an older one of the same
// entry, as there is no counter outside the folder; numbers and sizes of files are seen.
//
// # What goes wrong
//
// A file that is cut short, changed, foreign, or sealed with another key is left out, and an error that
// names it is logged: that entry is not there, and the API server is waited for. A file that cannot be written is
// tried again for as long as its entry is needed; meanwhile the one before it stays. Nothing here ends the agent or a pod.
//
// Rules are those of docs/spec/kube.md, KO8.
package offline
