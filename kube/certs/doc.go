// Package certs gets a node's certificates from the cluster's signers, renews them, and makes
// requests with the one that is good at the moment.
//
//	Wanted ─► Keeper ── CertificateSigningRequest ──► API server ── approver, signer
//	            │  ▲                                      │
//	            │  └───────────── certificate ◄───────────┘
//	            ├──► Dir/NAME-current.pem
//	            └──► Certificate ──► Transport: requests of the node's clients
//	                             └─► TLS handshakes of the node's server
//
// A [Keeper] has one kind of certificate. That of [ClientSigner] is what the node shows to the API
// server; a node that has none, or whose last one has expired, asks for it with other credentials,
// such as a bootstrap token. That of [ServingSigner] is what the node's server shows; it names the
// node's addresses, and another one is asked for when these change.
//
// # Between two certificates
//
// A [Transport] gives each certificate connections of its own. Once there is another certificate,
// new requests use it, requests that have begun end on the connection they have, and watches end as if the
// server had closed them, so that their owners watch again with the new certificate.
//
// # Files
//
// A private key and its certificate are one file that only the user can read, and that is replaced as a whole.
// NAME-current.pem is a link to the newest, as a kubelet has it. The one before it is kept; NAME-pending.key is
// the key of a request that has no answer yet, so that an agent that was killed finds its request again.
//
// It does not use the manager of client-go's util/certificate, which lives by the process's clock, reports
// to process-wide loggers, makes another request every 15 min that none is answered, and does not wait for its goroutines.
//
// Rules are those of docs/spec/kube.md, KC.
package certs
