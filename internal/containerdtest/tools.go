package containerdtest

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// tools are the programs that an instance needs.
type tools struct {
	containerd, ctr, ip, busybox, goTool string
	// programs is the folder of a containerd that is not the machine's own, or "".
	programs string
	// cni is the folder of the CNI plugins.
	cni string
}

// machine is where tools are looked for; tests replace it.
type machine struct {
	uid        int
	programs   string // see [ProgramsVariable]
	lookPath   func(string) (string, error)
	cniFolders []string
}

func thisMachine() machine {
	return machine{
		uid:        os.Geteuid(),
		programs:   os.Getenv(ProgramsVariable),
		lookPath:   exec.LookPath,
		cniFolders: []string{"/usr/lib/cni", "/opt/cni/bin"},
	}
}

// find looks for everything an instance needs and reports all that is missing
// in one error.
func (m machine) find() (*tools, error) {
	var problems []error
	missing := false
	look := func(name, pkg string) string {
		file, err := m.lookPath(name)
		if err != nil {
			missing = true
			problems = append(problems, fmt.Errorf("%s is not installed (Debian package %s)", name, pkg))
		}
		return file
	}
	// A mix of two versions would test neither.
	lookOwn := func(name string) string {
		if m.programs == "" {
			return look(name, "containerd")
		}
		file := filepath.Join(m.programs, name)
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			problems = append(problems, fmt.Errorf("%s is not in %s=%s", name, ProgramsVariable, m.programs))
		}
		return file
	}
	if m.uid != 0 {
		problems = append(problems, fmt.Errorf("a private containerd needs root, this is user %d", m.uid))
	}
	t := &tools{
		programs:   m.programs,
		containerd: lookOwn("containerd"),
		ctr:        lookOwn("ctr"),
		busybox:    look("busybox", "busybox-static"),
		ip:         look("ip", "iproute2"),
	}
	var err error
	if t.goTool, err = m.lookPath("go"); err != nil {
		problems = append(problems, errors.New("go is not in the PATH"))
	}
	lookOwn("containerd-shim-runc-v2")
	if _, err := os.Stat(filepath.Join(m.programs, "runc")); m.programs == "" || err != nil {
		look("runc", "runc")
	}
	if t.busybox != "" {
		if err := mustBeStatic(t.busybox); err != nil {
			missing = true
			problems = append(problems, err)
		}
	}
	if t.cni = m.cniFolder(); t.cni == "" {
		missing = true
		problems = append(problems, fmt.Errorf("the CNI plugins bridge, host-local and loopback are in none of %q (Debian package containernetworking-plugins)", m.cniFolders))
	}
	if len(problems) == 0 {
		return t, nil
	}
	if missing {
		problems = append(problems, errors.New("to install all: apt-get install "+packages))
	}
	problems = append(problems, errors.New("or set "+EndpointVariable+" to the socket of a running CRI runtime"))
	return nil, errors.Join(problems...)
}

const packages = "containerd runc containernetworking-plugins busybox-static iproute2"

// cniPlugins are the network plugins that an instance uses.
var cniPlugins = []string{"bridge", "host-local", "loopback"}

// cniFolder returns the first folder that has every plugin needed.
func (m machine) cniFolder() string {
search:
	for _, folder := range m.cniFolders {
		for _, plugin := range cniPlugins {
			if _, err := os.Stat(filepath.Join(folder, plugin)); err != nil {
				continue search
			}
		}
		return folder
	}
	return ""
}

// mustBeStatic refuses a program that needs a dynamic loader, which the image
// does not have.
func mustBeStatic(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not statically linked (install Debian package busybox-static)", program)
		}
	}
	return nil
}
