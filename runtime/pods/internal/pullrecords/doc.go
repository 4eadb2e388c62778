// Package pullrecords remembers with whose credentials the images of the node were
// pulled, so that a pod cannot use a private image only because another pod's
// secret brought it here (spec/runtime.md 9.9).
//
//	before a pull ──► intent file ──► pulled ──► record: repository ──► node-wide | secrets (hashes)
//	                       └── crash or unknown outcome ──► record without access, once the image is seen
//
//	present image ──► MayUse: policy, record, the pod's credentials ──► use it, or pull it again
//
// Deciding is pure ([Record.Allows], [Policy]); the [Ledger] reads and writes, and
// [FileStore] keeps one small file per image. In doubt an image is pulled again:
// the registry then decides.
package pullrecords
