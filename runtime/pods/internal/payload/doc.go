// Package payload decides what the files of configMap, secret, downwardAPI and
// projected volumes are. It touches no disk: objects come in through an interface,
// files go out as a map that package poddir publishes.
//
//	v1.Volume, v1.Pod ─┐
//	Objects ───────────┴─► Files ──► path -> content, mode
//
// Errors name the object, key or field, and never quote content.
package payload
