// Command crio runs a program, such as go test, against a CRI-O of its own:
//
//	go run ./internal/containerdtest/crio -programs FOLDER COMMAND [ARGUMENT]...
//
// The folder has crio and pinns; conmon, the CNI plugins and crun or runc are the machine's. The
// daemon's files, socket, network and storage are in a temporary folder. The command gets the
// socket in CONTAINER_RUNTIME_ENDPOINT. When it has ended, whatever is left in the runtime is
// listed and removed, and the daemon is stopped. Only one can run at a time on a machine, because
// its network is always the same.
//
// docs/testing.md says how the programs are built.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/containerdtest"
)

func main() {
	programs := flag.String("programs", "", "folder with crio and pinns")
	oci := flag.String("oci", "runc", "the OCI runtime, a name in the PATH or a path: runc 1.1, or crun from 1.9 on")
	log := flag.String("log", "", "file for what the daemon writes; none: in its temporary folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, *programs, *oci, *log, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "crio:", err)
		os.Exit(1)
	}
}

// tools are the programs a CRI-O needs.
type tools struct{ crio, pinns, conmon, oci, cni, ip string }

func find(programs, oci string) (t tools, err error) {
	t.crio, t.pinns, t.cni = filepath.Join(programs, "crio"), filepath.Join(programs, "pinns"), "/usr/lib/cni"
	var problems []error
	for _, file := range []string{t.crio, t.pinns, filepath.Join(t.cni, "bridge")} {
		_, err := os.Stat(file)
		problems = append(problems, err)
	}
	for name, to := range map[string]*string{"conmon": &t.conmon, oci: &t.oci, "ip": &t.ip} {
		*to, err = exec.LookPath(name)
		problems = append(problems, err)
	}
	return t, errors.Join(problems...)
}

// run runs the command while a CRI-O runs.
func run(ctx context.Context, programs, oci, log string, command []string) (err error) {
	if len(command) == 0 {
		return errors.New("no command: see go doc ./internal/containerdtest/crio")
	}
	t, err := find(programs, oci)
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "crio-")
	if err != nil {
		return err
	}
	l := layout{root: root, logFile: log}
	defer func() { err = errors.Join(err, removeAll(l, t)) }()
	if err := unix.Mount("podwright-crio", root, "tmpfs", 0, "size=4g,mode=0711"); err != nil {
		return fmt.Errorf("mount a tmpfs on %s: %w", root, err)
	}
	registry, err := containerdtest.NewPauseRegistry(ctx, root)
	if err != nil {
		return err
	}
	server := httptest.NewServer(registry)
	defer server.Close()
	if err := l.write(t, strings.TrimPrefix(server.URL, "http://")+"/"+containerdtest.PauseName); err != nil {
		return err
	}
	stop, err := start(l, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	connection, err := grpc.NewClient("unix://"+l.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	client := runtimeapi.NewRuntimeServiceClient(connection)
	if err := awaitReady(ctx, client); err != nil {
		return fmt.Errorf("the daemon does not become ready: %w\n%s", err, l.endOfLog())
	}
	defer func() { err = errors.Join(err, removePods(context.WithoutCancel(ctx), client)) }()
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	// What the command started ends with it.
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	program.Cancel = func() error { return unix.Kill(-program.Process.Pid, unix.SIGTERM) }
	program.Env = append(os.Environ(), containerdtest.EndpointVariable+"=unix://"+l.socket())
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	return program.Run()
}

// start starts the daemon and returns a function that stops it.
func start(l layout, t tools) (stop func() error, err error) {
	log, err := os.OpenFile(l.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	daemon := exec.Command(t.crio, "--config", l.config(), "--config-dir", l.file("conf.d"))
	daemon.Env = append(os.Environ(), "HOME="+l.home(), "CONTAINERS_STORAGE_CONF="+l.file("storage.conf"), "GOTRACEBACK=all")
	daemon.Stdout, daemon.Stderr = log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt goes to the command first
	if err := daemon.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	ended := make(chan error, 1)
	go func() {
		err := daemon.Wait()
		if err != nil {
			err = fmt.Errorf("the daemon: %w: %s", err, l.endOfLog())
		}
		ended <- errors.Join(err, log.Close())
	}()
	return func() error {
		if err := daemon.Process.Signal(unix.SIGTERM); err != nil {
			return fmt.Errorf("the daemon: %w", errors.Join(err, <-ended))
		}
		select {
		case err := <-ended:
			var code *exec.ExitError
			if errors.As(err, &code) {
				return nil // it may fail while stopping: 1.36 closes its event stream twice
			}
			return err
		case <-time.After(time.Minute):
			return errors.Join(errors.New("the daemon does not stop within a minute"), daemon.Process.Kill(), <-ended)
		}
	}, nil
}

// awaitReady waits until the daemon and its network are ready.
func awaitReady(ctx context.Context, client runtimeapi.RuntimeServiceClient) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := client.Status(ctx, &runtimeapi.StatusRequest{}, grpc.WaitForReady(true))
		ready := err == nil
		for _, c := range response.GetStatus().GetConditions() {
			ready = ready && c.GetStatus()
		}
		if ready {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err(), fmt.Errorf("conditions %v", response.GetStatus().GetConditions()))
		}
	}
}

// removePods removes the pods that the command left behind, and reports which.
func removePods(ctx context.Context, client runtimeapi.RuntimeServiceClient) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	list, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var problems []error
	for _, s := range list.GetItems() {
		fmt.Fprintln(os.Stderr, "crio: left in the runtime:", s.GetMetadata().GetNamespace(), s.GetMetadata().GetName(), s.GetState())
		containers, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: s.GetId()}})
		problems = append(problems, err)
		for _, c := range containers.GetContainers() {
			_, err := client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.GetId()})
			problems = append(problems, err)
		}
		_, err = client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.GetId()})
		problems = append(problems, err)
		_, err = client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.GetId()})
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// removeAll removes what the daemon leaves: mounts, folders and the bridge.
func removeAll(l layout, t tools) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var mounts []string
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == l.root || strings.HasPrefix(f[4], l.root+"/")) {
			mounts = append(mounts, f[4])
		}
	}
	var problems []error
	for i := len(mounts) - 1; i >= 0; i-- {
		problems = append(problems, unix.Unmount(mounts[i], unix.MNT_DETACH))
	}
	// Without pods there was no bridge.
	_ = exec.Command(t.ip, "link", "delete", bridge).Run()
	return errors.Join(append(problems, os.RemoveAll(l.root))...)
}
