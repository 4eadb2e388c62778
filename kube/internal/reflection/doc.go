// Package reflection keeps a store as an API server has it, with the reflector of
// client-go.
//
//	API ── list, watch ──► cache.Reflector ──► Store
//	        │ each failed request
//	        └──► Failed
//
// It adds what that lacks for a library: pauses on the injected clock, nothing of its own
// in the process-wide error handlers and logs, and word of every failed request.
package reflection
