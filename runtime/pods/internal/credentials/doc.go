// Package credentials chooses what to show a registry (spec/runtime.md 10).
//
//	secrets, node file ──► Parse ──► Keyring ──► Lookup(repository) ──► credentials, best first
//
// A keyring is made for one pull and is not changed afterwards. Nothing of what a
// secret holds gets into an error.
package credentials
