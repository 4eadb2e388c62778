// Package pullrecords remembers with which credentials the images of the node were
// pulled, so that a pod cannot use a private image only because another pod's secret
// pulled it (spec/runtime.md 9.9).
//
//	before a pull ──► intent file ──► pulled ──► record: repository ──► node-wide | secrets (hashes)
//	                       └── crash or unknown outcome ──► record without access, once the image appears
//
//	present image ──► MayUse: policy, record, the pod's credentials ──► use it, or pull it again
//
// Deciding is pure ([Record.Allows], [Policy]); the [Ledger] reads and writes, and
// [FileStore] keeps one small file per image. If access is unknown the image is
// pulled again: the registry then decides.
package pullrecords
