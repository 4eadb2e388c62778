// Package containerlog reads the log of one run of a container as kubectl logs shows it
// (spec/runtime.md 27.3-27.7).
//
//	0.log.<stamp>.gz, 0.log.<stamp>, 0.log ──► entries ──► filter ──► join ──► writer
//	        (in the order of writing)          (parse)   (since, tail,  (parts of
//	                                                      stream)        a line)
//
// The files rotate and are compressed while they are read: a [Reader] opens them one after the
// other and finds its place again by what is in them, so that no line is lost or shown twice.
// It holds no lock, and no more than the open files of its own reading, however slow
// its client is. A line of any length takes bounded memory.
//
// It neither knows which run is meant nor when it ends: [Options.Ended] says so.
package containerlog
