// Package tokens gets from an API server what it gives to single pods: tokens of their service
// accounts, bundles of trust anchors, and keys with certificates.
//
//	Engine ── Token ──────────► Source ─────── TokenRequest ──────────► API server
//	       ── TrustBundle ────► Bundles ────── ClusterTrustBundles ───►
//	       ── PodCertificate ─► Certificates ─ PodCertificateRequests ►
//
// They are given to an engine as Config.Pods.Projections. The engine asks for them whenever it
// looks after a pod, once a minute at least; they have no goroutines, and keep what they got until
// it is due to be replaced. The engine writes what is new into the pods' volumes.
//
// # When the API server is away, or refuses
//
// What a pod has stays as long as it is good, and its replacement is asked for in growing
// intervals. A pod that has nothing yet waits, and its reason says what the API server said.
//
// With a cache (package offline) what was issued outlives the agent and the machine, so that pods start without an
// API server. It is given to them, expired or not, until another one can be had.
//
// # Secrets
//
// Tokens and keys are in memory, and in a cache if there is one, for the pod that they were issued to. They appear in no log and
// no error.
//
// The cluster's root certificates are an ordinary config map (kube-root-ca.crt in each namespace),
// which package objects reads.
//
// Rules are those of docs/spec/kube.md, KK.
package tokens
