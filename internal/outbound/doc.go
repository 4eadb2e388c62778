// Package outbound connects the node to what the probes and hooks of pods name. A manifest is
// untrusted: it must not be a way into the node's own network, to its cloud's metadata service or
// to what listens on its loopback (spec/probe.md 11).
//
// [Check] decides about the address that is actually dialed, after names have been looked up.
// [Dialer] is the shell around it.
package outbound
