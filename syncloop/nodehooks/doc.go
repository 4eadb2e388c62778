// Package nodehooks has what an agent does for its node as a whole.
//
//	Initialise ──► everything else of the engine
//	runtime well for the first time ──► RuntimeReady
//	Register, until it succeeds ──┬──► RenewLease    every 10 s
//	                              └──► PublishStatus on change, and every 5 min
//
// The hooks are called by the engine; this package has their types and schedule.
//
// Rules are those of docs/spec/syncloop.md 16.
package nodehooks
