// Package optioncheck refuses options of an engine's parts that the user must not set:
//
//	Config.Pods, Config.Loop, ... ──► Check ──► "Pods.RootDir is set by the engine: use RootDir"
//
// It is pure: it only reads what it is given.
package optioncheck
