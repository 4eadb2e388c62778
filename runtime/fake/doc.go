// Package fake is a container runtime in memory, for tests and simulations. It
// implements [cri.RuntimeService], [cri.ImageService] and
// [cri.EventStreamer] with the behaviour of real runtimes (name
// reservation, grace periods, exit codes, idempotent removal) on an injected
// clock, runs containers from scripts, and breaks on request.
//
//	Options.Script ──► Script ─┐ (one per container, chosen at creation)
//	                           ▼
//	caller ──► call record ──► fault? ──► effect on the state ──► wait ──► answer
//	            Calls()        Inject()      ▲                    (clock, ctx)
//	                                         │
//	                   due moments (exits, kills, log lines, late effects)
//	                   done in order of time before anything looks
//
// # Time
//
// The fake has no goroutine and no background timer. A container that exits after
// 5 s does not wake up at that moment: the next call to the fake first does
// everything that was due, in order and stamped with the moment it was due. The fake
// therefore works the same on the real clock, in a testing/synctest bubble and on
// k8s.io/utils/clock/testing.FakeClock, where one Step may cover an hour, and it can
// be dropped without being closed. The one consequence: log files grow only when the
// fake is called. Calls that wait (StopContainer, ExecSync, PullImage, an injected
// delay) and event streams wait on the clock, in the caller's goroutine.
//
// Creation times are strictly increasing even if the clock stands still, so that
// "the newest container" is never a tie.
//
// # Faults
//
// [Runtime.Inject] makes matching calls fail, hang, take effect and fail nevertheless,
// or take effect after their caller has given up. [Runtime.SetDown],
// [Runtime.Reboot] and [Runtime.LoseRecords] break the whole runtime. [Runtime.OnEvent]
// drops, delays, reorders and doubles events.
//
// # What it is not
//
// It runs no processes: argv, mounts and resources are kept and reported, not used. It
// does not model one particular runtime; where they differ it follows the stricter
// reading of the CRI. It passes the suite of package runtimetest.
package fake
