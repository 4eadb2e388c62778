// Package proberesult has the kinds and the results of probes, and what a record keeps of them. Package probe finds a result,
// runtime/pods kills and waits by it, status shows it, and status/checkpoint keeps it; package
// probe gives them their public names.
package proberesult
