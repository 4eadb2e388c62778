// Package credentials gets credentials of image registries from credential provider plugins, the
// programs that a kubelet runs for this purpose, with the same configuration and protocol.
//
//	pod, image ──► Source ── matchImages? ──► kept? ── no ──► plugin: image, token on stdin
//	                 ▲                          │                │
//	                 └────── auth by image ─────┴──── kept ◄── answer on stdout
//
// An engine gets it as Config.Pods.ImagePull.Credentials. The engine asks before it pulls an image,
// and when a pod wants to use an image that is present and was pulled with a service account's
// credentials.
//
// # Secrets
//
// Credentials and tokens are kept only in memory, for as long as a plugin says. What a plugin
// prints to stderr becomes part of the error of a failed run, without secrets.
//
// # Plugins
//
// A plugin runs as the agent's user, with the agent's environment. It is therefore not run if another
// user could change it; the configuration is not read in that case either. A run that takes longer than
// a minute is killed, with all processes that it started and that are still in its process group.
//
// The rules are KG in docs/spec/kube.md.
package credentials
