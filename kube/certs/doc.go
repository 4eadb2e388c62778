// Package certs gets a node's certificates from the cluster's signers, renews them, and makes
// requests with the one that is currently valid.
//
//	Wanted ─► Keeper ── CertificateSigningRequest ──► API server ── approver, signer
//	            │  ▲                                      │
//	            │  └───────────── certificate ◄───────────┘
//	            ├──► Dir/NAME-current.pem
//	            └──► Certificate ──► Transport: requests of the node's clients
//	                             └─► TLS handshakes of the node's server
//
// A [Keeper] has one kind of certificate. With one from [ClientSigner] the node authenticates to
// the API server; a node that has none, or whose last one has expired, requests it with other
// credentials, such as a bootstrap token. The node's server uses one from [ServingSigner]; it names
// the node's addresses, and a new one is requested when they change.
//
// # Between two certificates
//
// A [Transport] gives each certificate its own connections. Once there is a new certificate, new
// requests use it, requests that have begun finish on their connections, and watches end as if the
// server had closed them, so that their owners watch again with the new certificate.
//
// # Files
//
// A private key and its certificate are in one file that only the user can read, and that is replaced as a whole.
// NAME-current.pem is a link to the newest, as in a kubelet's folder. The pair before it is kept; NAME-pending.key
// is the key of a request that has no answer yet, so that an agent that was killed finds its request again. The first
// line of a pair is a comment that says what was requested, for the next agent.
//
// The package does not use the manager in client-go's util/certificate: that one is tied to the wall clock and
// to process-wide loggers, replaces unanswered requests every 15 min, and does not wait for its goroutines.
//
// The rules are KC in docs/spec/kube.md.
package certs
