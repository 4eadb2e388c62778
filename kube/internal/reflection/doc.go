// Package reflection mirrors objects of an API server in a store, with the reflector of client-go.
//
//	API ── list, watch ──► cache.Reflector ──► Store
//	        │ each failed request
//	        └──► Failed
//
// It adds what the reflector lacks for a library: pauses on the injected clock, no use of the
// process-wide error handlers and logs, and a report of every failed request.
package reflection
