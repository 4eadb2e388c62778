// Package credentials gets credentials of image registries from credential provider plugins, the
// programs that a kubelet runs for this, with the same configuration and the same protocol.
//
//	pod, image ──► Source ── matchImages? ──► kept? ── no ──► plugin: image, token on stdin
//	                 ▲                          │                │
//	                 └────── auth by image ─────┴──── kept ◄── answer on stdout
//
// It is given to an engine as Config.Pods.ImagePull.Credentials. The engine asks before it pulls an
// image, and when a pod wants to use an image that is there and was pulled with a service
// account's credentials.
//
// # Secrets
//
// Credentials and tokens are in memory only, for as long as a plugin says. What a plugin prints to
// stderr is part of the error of a run that failed, without what is secret.
//
// # Plugins
//
// A plugin runs as the agent does, with its environment. It is therefore not run if another user
// could change it, and the configuration is not read then either. A run that takes longer than a
// minute is killed, with all processes that it has started and that are still in its process group.
//
// Rules are those of docs/spec/kube.md, KG.
package credentials
