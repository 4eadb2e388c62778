// Package process is the embedded default runtime: containers are supervised
// processes of the operating system. It needs no daemon, no images and, for
// image "host", no privileges. It implements cri.RuntimeService,
// cri.ImageService and cri.EventStreamer, on Linux 5.8 or newer; on
// other systems New returns an error.
//
// # It does not isolate
//
// This is a process supervisor with the interface of a container runtime, not a
// sandbox. Containers share the host's network, process table, users, devices
// and memory. They can signal, trace and starve each other and everything else
// the agent's user can reach. Run only programs that you would run without a
// container. Requests that only limit a container are not applied: resource
// limits, seccomp, AppArmor and SELinux profiles, capabilities, masked and
// read-only paths, a read-only root, namespaces, host names, port mappings. What
// a program needs to work (users, groups, mounts, working directory, environment) is
// applied or refused with an error, never dropped.
//
// # What things are
//
//	agent (the embedding program)
//	  │ New, CRI calls           Root/                          (0700)
//	  │                            lock                         one Runtime at a time
//	  ├─ starts ──► supervisor     sandboxes/<id>.json          (0600)
//	  │  (detached)    │           containers/<id>/container.json  what to run
//	  │                │                           started.json    pid, start time, boot
//	  │                ├─ starts                   exit.json       code, reason, time
//	  │                │    │                      stdout, stderr  FIFOs
//	  │                │    ▼                      lock, control   held and used by
//	  │                │  container process                        the supervisor
//	  │                │    │ stdout, stderr
//	  │                └────┴──► log file in the sandbox's log directory
//	  └─ one epoll goroutine: pidfd of each supervisor (or container)
//
// Because pods have no network of their own, a forwarded port of any pod is that port of
// the host's loopback address, whichever program listens there: whoever may forward
// ports of a pod reaches all of them, as commands in a container do.
//
// A sandbox is a record and a log directory; it has no address of its own: probes and
// hooks name 127.0.0.1 as their host, which podwright.Config.Outbound must allow. A
// container is a session of processes: the command and everything it forks. The
// command's exit ends the container, and what is left of its tree is killed. What does not
// die of that, as it hangs in the kernel, does not keep the container from ending.
// Each file is written to a temporary name, synced and renamed.
//
// # Full disk
//
// An agent also starts on a full or read-only disk, to look after what is running.
// Stopping and removing need no room. A stopped sandbox whose record cannot be written is
// not ready in memory, and the record follows once the disk takes it; an agent that is started
// before that finds a ready sandbox without running containers. A sandbox that could not be
// created, but whose record is there and cannot be removed, counts as stopped, too. A container keeps room for the
// record of its end from its start on. If that cannot be written all the same (read-only
// disk), the next agent reports an unknown end.
//
// # What commands leave behind
//
// Commands that are run in a container are sessions of their own. When the container has
// ended, the runtime looks at all processes of the machine and kills those that began with
// the container's PODWRIGHT_CONTAINER_ID in their environment, except the agent itself.
// Stopping and removing wait for this. It looks again a second later, and at the next start
// for all containers that have ended. So a daemon of the host that was started from a command
// ends with the container.
//
// It does not find a process that began with another environment (env -i) or overwrote it
// (some programs do, to change their title), one whose environment the agent may not read
// (without root, that of another user), and those that fork faster than ten looks find them.
// Looking at a process that hangs in the kernel may hang too, and with it every stop and
// removal, until its context ends. Processes older than the containers are not looked at,
// if the records tell when these started.
//
// Of a container whose process ended unseen, the next start also kills the session, if one of
// its processes still has the container's output: it may belong to another program by now.
//
// # Supervisor
//
// A program that calls [Shim] first thing in main and passes the result to New
// gets one small supervisor process per container, which is the program's own
// binary run again:
//
//	func main() {
//		supervisor, done := process.Shim()
//		if done {
//			return // this process was a supervisor
//		}
//		rt, err := process.New(process.Options{Root: root, Supervisor: supervisor})
//		// ...
//	}
//
// Code that runs before main (init functions, package variables) runs in every
// supervisor too. The supervisor copies the logs, reaps the container's whole tree and
// writes the exit code to disk, whatever happens to the agent. A service manager must
// not kill it with the agent (systemd: KillMode=process).
//
// Without it the agent itself is the parent and copies the logs. Containers
// survive the agent's death either way. Without a supervisor their output waits
// in a FIFO (64 KiB, then they block) until the next agent reads it, which tries every second;
// what is in the FIFO when the last writer ends is lost. A container that ended while no agent or
// supervisor watched it is reported with exit code 255 and reason "Unknown", never as a
// success. The same holds if its supervisor was killed. How a container ended that had a
// supervisor is read for a minute if reading fails (no more open files). After that it is
// unknown until it can be read.
//
// # Restart of the agent
//
// New finds containers by pid, start time and boot ID, all recorded on disk, so
// a reused pid is never mistaken for a container. After a reboot all sandboxes
// are not ready and all containers that ran have ended with an unknown code. New fails if
// it cannot look because open files or memory have run out. A supervisor that was starting
// its container when the agent was killed, and is not done 10 s after the next agent's
// start, is killed: it could start the container after its end was reported.
// Close leaves everything running. A container whose record cannot be read is not shown, as
// its pod cannot be told: New kills what runs of it. A folder whose record is of another
// container, a copy, is skipped.
//
// # Images
//
// An image is "host" (the agent's own root file system) or the absolute path of
// a directory that holds a root file system, entered by chroot, for agents that
// run as root. Neither is ever fetched, changed or removed (except for mount
// points, below). Any other image is absent and PullImage fails for it. A
// trailing ":latest" is ignored. In a root file system /proc, /sys and /dev show
// the host's, where these directories exist.
//
// # Mounts
//
// An agent that runs as root gives a container with mounts its own mount
// namespace: its mounts are invisible outside. In a root file system missing
// mount points are created; on the host they are not, and the start fails.
// An agent without root can only make mounts that change nothing: image "host", not
// read-only, and the same path on both sides. Image mounts and bidirectional
// propagation are refused.
//
// # Environment and output
//
// A container gets the environment of its config and nothing of the agent's; PATH
// is added if missing, and PODWRIGHT_CONTAINER_ID always; commands run in it also get
// PODWRIGHT_COMMAND. Its standard input is empty. Its output goes to the log path of its
// config, in the CRI format, or nowhere if that is empty; log files have mode 0640 and
// are never removed here. Output that cannot be written (disk full) is dropped: it never blocks a container.
//
// # Stopping
//
// StopContainer sends the stop signal to the container's process group, SIGKILL
// to all that it finds of the tree when the time-out is over, and waits until it has
// ended and what commands left behind was killed. If the context ends, only the wait
// ends; the kill still comes. A second call with a shorter time-out moves the kill
// forward.
package process
