// Package podwrighttest is a whole node for the tests of an agent: a real engine on an in-memory
// runtime, in virtual time. Ten minutes of crash-loop back-off take milliseconds, and every
// run is the same.
//
//	podwrighttest.Run(t, podwrighttest.Options{}, func(n *podwrighttest.Node) {
//		n.Add(podwrighttest.Pod("web"))
//		n.WaitPhase("web", v1.PodRunning)
//	})
//
// The parts of a node, and what Stop, Crash, Reboot and Start do to them:
//
//	Options.Programs ──► what containers do
//	                          │
//	Add, Set, Remove ──► engine ──► runtime ◄── Fail, Hang, Exit
//	   WaitPhase, ... ◄─── │          (package runtime/fake)
//	                       ▼
//	              disk: records, volumes, logs
//
//	Stop     the engine ends; pods keep running
//	Crash    kill -9: like Stop, but nothing more reaches the disk or the sinks
//	Reboot   the power fails: like Crash, but containers end and unsynced records are lost
//	Start    a new engine on the same disk and runtime, with the same desired pods
//
// # Time
//
// Everything runs in a testing/synctest bubble, where time passes only when all its goroutines
// wait, and then instantly. The Wait methods and [Node.Advance] let it pass; time.Now and timers
// of the test and of the code under test follow. [Run] makes the bubble; [Start] is for tests that
// already have one.
//
// # What it is not
//
// No process runs, no image is pulled and no packet is sent. To see how an engine works with a
// real runtime, test on one. [Options.Configure] can change anything in the engine's
// configuration, including its sources and sinks, so that you can test your own; conformance
// kits for them are status/statustest, syncloop/source/sourcetest, podworkers/syncertest and
// runtime/runtimetest.
//
// docs/guide/testing.md is a chapter about this package, with the examples below.
package podwrighttest
