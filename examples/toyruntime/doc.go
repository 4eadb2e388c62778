// Package toyruntime is a container runtime written from scratch, the smallest that passes package runtimetest:
// start here to write your own. A container is a process of the host, its image the host's files:
//
//	engine ──► Runtime ──► sandboxes: names with labels      (objects.go)
//	              │    ──► containers: configs and statuses  (objects.go)
//	              │    ──► processes ──► logs in the CRI's format (process.go, logs.go)
//	              └──────► lists and statuses: copies of what is above (runtime.go)
//
// It has no addresses, mounts, resources, events, users or log rotation, and does not find the processes of
// an earlier run: end the pods before the program ends. Package runtime/process is what it would grow into.
package toyruntime
