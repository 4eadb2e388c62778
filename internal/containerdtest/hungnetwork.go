package containerdtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// HangNetwork makes the network plugin hang in every call about the sandbox of the pod with this
// name, until release is called or the test ends. release may be called more than once.
func (i *Instance) HangNetwork(pod string) (release func()) {
	i.tb.Helper()
	i.mustBePrivate("HangNetwork")
	hold := filepath.Join(i.Root, "hung-network")
	if err := errors.Join(os.WriteFile(hold, nil, 0o600), i.layout.wrapBridge(hold, pod, i.tools.cni)); err != nil {
		i.tb.Fatalf("containerdtest: %v", err)
	}
	return func() {
		i.tb.Helper()
		if err := os.Remove(hold); err != nil && !errors.Is(err, fs.ErrNotExist) {
			i.tb.Fatalf("containerdtest: %v", err)
		}
	}
}

// wrapBridge replaces the plugin bridge by a script. For a call about this pod, the script waits
// while the file hold exists, and then does what the plugin does.
func (l layout) wrapBridge(hold, pod, cni string) error {
	script := strings.Join([]string{
		`#!/bin/sh`,
		fmt.Sprintf(`case ";$CNI_ARGS;" in *";K8S_POD_NAME=%s;"*)`, pod),
		fmt.Sprintf(`	while [ -e %q ]; do sleep 0.1; done`, hold),
		`esac`,
		fmt.Sprintf(`exec %q "$@"`, filepath.Join(cni, "bridge")),
		``,
	}, "\n")
	wrapper := filepath.Join(l.plugins(), ".bridge")
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil {
		return err
	}
	return os.Rename(wrapper, filepath.Join(l.plugins(), "bridge"))
}
