// Package podwrighttest is a whole node for the tests of an agent: a real engine on a runtime
// in memory, in virtual time. Ten minutes of crash-loop back-off take milliseconds, and every
// run is the same.
//
//	podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
//		n.Add(podwrighttest.Pod("web"))
//		n.WaitPhase("web", v1.PodRunning)
//	})
//
// What a node is made of, and what outlives what:
//
//	Options.Programs ──► what containers do
//	                          │
//	Add, Set, Remove ──► engine ──► runtime ◄── Fail, Hang, Exit
//	   WaitPhase, ... ◄─── │          (package runtime/fake)
//	                       ▼
//	              disk: records, volumes, logs
//
//	Stop     the engine ends; pods run on
//	Crash    kill -9: as Stop, and nothing more reaches the disk or the sinks
//	Reboot   the power fails: as Crash, containers have ended, unsynced records are lost
//	Start    a new engine on the same disk and runtime, with the same desired pods
//
// # Time
//
// Everything is in a testing/synctest bubble, where time passes only when all its goroutines
// wait, and then at once. The Wait methods and [Node.Advance] let it pass; time.Now and timers of
// the test and of the code under test follow. [Run] makes the bubble; [Start] is for tests that have
// one already.
//
// # What it is not
//
// No process runs, no image is pulled and no packet is sent. How an engine gets along with a
// real runtime is for tests on one. [Options.Configure] changes anything of the engine's
// configuration, also its sources and sinks, so your own are tested in it; conformance kits for
// these are status/statustest, syncloop/source/sourcetest, podworkers/syncertest and
// runtime/runtimetest.
//
// docs/guide/testing.md is a chapter about this package, with the examples below.
package podwrighttest
