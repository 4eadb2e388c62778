package containerdtest

import (
	"context"
	"errors"
	"net"
	"os"
)

// PowerCut ends the daemon and everything that runs in it at once, and drops what a machine loses with its
// power: mounts below Root (such as the memory volumes of pods), the daemon's state, sockets, cgroups and the
// network. Images, container records and files stay. [Instance.Restart] starts the daemon as after a boot.
func (i *Instance) PowerCut() {
	i.tb.Helper()
	i.mustBePrivate("PowerCut")
	ctx, cancel := context.WithTimeout(i.tb.Context(), cleanupTimeout)
	defer cancel()
	if err := i.cutPower(ctx); err != nil {
		i.tb.Fatalf("containerdtest: power cut: %v", err)
	}
}

func (i *Instance) cutPower(ctx context.Context) error {
	containers, sockets := readBundles(i.layout)
	if err := killProcesses(ctx, i.layout); err != nil {
		return err
	}
	<-i.process.ended
	errs := []error{unmount(i.layout.root, false)}
	for _, socket := range append(sockets, i.layout.socket()) {
		errs = append(errs, ignoreAbsent(os.Remove(socket)))
	}
	removeCgroups(containers)
	if _, err := net.InterfaceByName(i.slot.bridge()); err == nil {
		_, err := run(ctx, i.tools.ip, "link", "delete", i.slot.bridge())
		errs = append(errs, err)
	}
	errs = append(errs, os.RemoveAll(i.layout.state()), os.Mkdir(i.layout.state(), 0o711))
	return errors.Join(errs...)
}
