// Package launch starts the process of a container: in a session of its own,
// with a root folder, mounts, user and environment.
//
//	Spec ─► own thread ─► mount namespace ─► mounts ─► look up command ─► fork, exec
//	        (only if the    new or joined     all paths inside the root are resolved
//	        thread changes)                   by the kernel and cannot leave it
//
// What must change before the fork (mount namespace, no_new_privs) changes one
// thread, which forks and then ends; the rest of the program is untouched. It
// does not isolate, wait, or record anything. Linux only.
package launch
