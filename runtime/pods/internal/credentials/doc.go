// Package credentials chooses the credentials for a registry (spec/runtime.md 10).
//
//	secrets, node file ──► Parse ──► Keyring ──► Lookup(repository) ──► credentials, best first
//
// A keyring is made for one pull and does not change. The content of a secret never
// appears in an error.
package credentials
