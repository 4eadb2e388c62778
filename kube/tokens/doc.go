// Package tokens gets what an API server issues to individual pods: tokens of their service
// accounts, bundles of trust anchors, and keys with certificates.
//
//	Engine ── Token ──────────► Source ─────── TokenRequest ──────────► API server
//	       ── TrustBundle ────► Bundles ────── ClusterTrustBundles ───►
//	       ── PodCertificate ─► Certificates ─ PodCertificateRequests ►
//
// An engine gets them as Config.Pods.Projections. It asks for them whenever it syncs a pod, at
// least once a minute; they have no goroutines, and keep what they got until it is due to be
// replaced. The engine writes new values into the pods' volumes.
//
// # When the API server is unavailable, or refuses
//
// A pod keeps what it has as long as that is valid, and the replacement is requested at growing
// intervals. A pod that has nothing yet waits, and its reason quotes the API server's error.
//
// With a cache (package offline), what was issued outlives the agent and the machine, so that pods
// start without an API server. They get it, expired or not, until a new one is available.
//
// # Secrets
//
// Tokens and keys are in memory, and in the cache if there is one, only for the pod that they were
// issued to. They appear in no log and no error.
//
// The cluster's root certificates are an ordinary config map (kube-root-ca.crt in each namespace),
// which package objects reads.
//
// The rules are KK in docs/spec/kube.md.
package tokens
