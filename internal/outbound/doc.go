// Package outbound connects the node to what the probes and hooks of pods name. A
// manifest is untrusted: it must not be a way into the node's own network, to the
// metadata service of its cloud or to what listens on its loopback (spec/probe.md 11).
//
// [Check] decides over the address that is really dialled, after names have been looked
// up. [Dialer] is the shell around it.
package outbound
