// Package nodehooks defines the hooks of an agent for its node as a whole.
//
//	Initialise ──► everything else of the engine
//	runtime healthy for the first time ──► RuntimeReady
//	Register, until it succeeds ──┬──► RenewLease    every 10 s
//	                              └──► PublishStatus on change, and every 5 min
//
// The engine calls the hooks; this package has their types and schedule.
//
// Rules are those of docs/spec/syncloop.md 16.
package nodehooks
