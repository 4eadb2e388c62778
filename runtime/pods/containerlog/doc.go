// Package containerlog reads the log of one run of a container as kubectl logs shows it
// (spec/runtime.md 27.3-27.7).
//
//	0.log.<stamp>.gz, 0.log.<stamp>, 0.log ──► entries ──► filter ──► join ──► writer
//	        (in the order of writing)          (parse)   (since, tail,  (parts of
//	                                                      stream)        a line)
//
// The files rotate and are compressed while they are read: a [Reader] opens them one after the
// other and finds its place again by their content, so that no line is lost or shown twice.
// However slow its client, it holds no lock and keeps open only the files that it reads. A
// line of any length takes bounded memory.
//
// It knows neither which run is meant nor when that ends: [Options.Ended] says so.
package containerlog
