// Package osproc names, watches and signals processes without ever mistaking a
// reused pid for the process meant.
//
//	Identity (pid, start time, boot) ── Open ──► Process (pidfd)
//	      on disk                                 │ Signal, SignalGroup, KillTree
//	                                              ▼
//	                                           Watcher: one epoll goroutine for all
//
// A pid is a name that the kernel gives away again. An [Identity] is not: no two
// processes of one boot share pid and start time. A [Process] holds a pidfd, so
// a signal reaches that process or none.
//
// It starts no processes and reaps none. Linux only.
package osproc
