// Command pause holds a pod sandbox's namespaces open in tests: it waits until it is told to stop
// and, as process 1 of a shared process namespace, reaps orphaned children.
package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGCHLD)
	for s := range signals {
		if s != unix.SIGCHLD {
			return
		}
		// One SIGCHLD may stand for several children.
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
