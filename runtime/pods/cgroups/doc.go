// Package cgroups keeps one Linux cgroup per pod, for pods.Options.Cgroups:
//
//	                 kubepods            all pods
//	                /    |     \
//	  pod<uid>           |      \        class Guaranteed
//	             burstable     besteffort
//	                 |              |
//	             pod<uid>       pod<uid>
//	                 |
//	           <container>               made by the runtime
//
//	runtime/pods ──Create, SetResources──► Hierarchy ──► cgroup.procs, cpu.*, memory.*
//	cleanup ───────List, ReduceCPU, Destroy───┘              (v1: one tree per controller)
//
// Names are those of spec/runtime.md 3.3, in the form of either driver. Both
// versions of cgroups work; on version 1 the controllers cpu, cpuacct, memory, pids and
// hugetlb are managed, the runtime makes the others' folders itself and Destroy removes
// them as well.
//
// # What it is not
//
// It decides no value (runtime/pods does), is no runtime, and does not talk to
// systemd: with the names of the systemd driver it makes the folders directly. Where
// systemd runs, it would reset their settings when the runtime has it start the slices, so
// [New] refuses these names there. A runtime with the cgroupfs driver works everywhere.
//
// A pod's UID comes from a manifest. It becomes part of a folder's name; a UID that
// cannot is refused. Everything is opened below a handle of the root, so no name or
// link leads out of it.
package cgroups
