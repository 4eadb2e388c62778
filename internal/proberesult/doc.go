// Package proberesult has the kinds and results of probes, and what a record keeps of them. Package
// probe finds a result, runtime/pods kills and waits because of it, status shows it, and
// status/checkpoint keeps it; package probe gives them their public names.
package proberesult
