package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/runtime/process/internal/launch"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// Names within the runtime's root folder and within a container's folder.
const (
	lockName      = "lock"
	sandboxesDir  = "sandboxes"
	containersDir = "containers"
	logsDir       = "logs"

	containerFile = "container.json" // what to run; a folder without it holds no container
	startingFile  = "starting"       // exists from just before the first fork on; has room for exitFile
	startedFile   = "started.json"
	exitFile      = "exit.json"
	controlFile   = "control" // the supervisor's socket
	stdoutFile    = "stdout"
	stderrFile    = "stderr"
)

// sandboxRecord is a sandbox on disk.
type sandboxRecord struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Namespace string            `json:"namespace"`
	Attempt   uint32            `json:"attempt"`
	CreatedAt time.Time         `json:"createdAt"`
	BootID    string            `json:"bootID"`
	NotReady  bool              `json:"notReady,omitempty"`
	LogDir    string            `json:"logDir"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Annotations and the namespace modes are only reported.
	Annotations map[string]string `json:"annotations,omitempty"`
	Namespaces  *namespaceModes   `json:"namespaces,omitempty"`
}

// namespaceModes are the namespace options of a sandbox, as requested.
type namespaceModes struct {
	Network  runtimeapi.NamespaceMode `json:"network"`
	PID      runtimeapi.NamespaceMode `json:"pid"`
	IPC      runtimeapi.NamespaceMode `json:"ipc"`
	TargetID string                   `json:"targetID,omitempty"`
}

// containerRecord is a container on disk: everything needed to start it, by the
// agent or by a supervisor.
type containerRecord struct {
	ID        string    `json:"id"`
	SandboxID string    `json:"sandboxID"`
	Name      string    `json:"name"`
	Attempt   uint32    `json:"attempt"`
	CreatedAt time.Time `json:"createdAt"`

	Image              string            `json:"image"`
	UserSpecifiedImage string            `json:"userSpecifiedImage,omitempty"`
	ImageRef           string            `json:"imageRef"`
	Labels             map[string]string `json:"labels,omitempty"`
	Annotations        map[string]string `json:"annotations,omitempty"`

	Root       string         `json:"root,omitempty"` // "" is the host's
	Args       []string       `json:"args"`
	Env        []string       `json:"env,omitempty"`
	Dir        string         `json:"dir,omitempty"`
	User       *launch.User   `json:"user,omitempty"`
	NoNewPrivs bool           `json:"noNewPrivs,omitempty"`
	Mounts     []launch.Mount `json:"mounts,omitempty"`
	StopSignal int            `json:"stopSignal"`

	LogDir  string `json:"logDir,omitempty"`
	LogName string `json:"logName,omitempty"` // relative to LogDir; "" is no log
}

func (c *containerRecord) logPath() string {
	if c.LogName == "" {
		return ""
	}
	return filepath.Join(c.LogDir, c.LogName)
}

// privateMounts reports whether the container has a mount namespace of its own.
func (c *containerRecord) privateMounts() bool {
	if c.Root != "" {
		return true
	}
	for _, m := range c.Mounts {
		if !m.Same() {
			return true
		}
	}
	return false
}

// startedRecord says which process a container is.
type startedRecord struct {
	Process osproc.Identity `json:"process"`
	// Supervisor is zero if the agent was the parent.
	Supervisor osproc.Identity `json:"supervisor,omitzero"`
	StartedAt  time.Time       `json:"startedAt"`
}

// exitRecord says how a container ended.
type exitRecord struct {
	Code       int32     `json:"code"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message,omitempty"`
	FinishedAt time.Time `json:"finishedAt"`
}

// writeRecord puts value as JSON into the file name of dir: completely or, after a crash
// at any moment, not at all. Records may hold secrets (environment), so only the owner
// may read them. A supervisor and an agent that no longer waits for it may write the same
// record at the same time.
func writeRecord(dir, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	if err := in(dir, func(root *os.Root) error { return durable.WriteShared(root, name, data) }); err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	return nil
}

// exitRoom is more than the size of the record of a container that ran.
const exitRoom = 512

// writeExit writes the record of a container's end. On a full disk the file that was written
// before the start becomes the record, which takes no room: otherwise how the container ended,
// perhaps because the disk is full, would never be known.
func writeExit(dir string, exit exitRecord) error {
	err := writeRecord(dir, exitFile, exit)
	if !durable.NoSpace(err) {
		return err
	}
	data, bad := json.Marshal(exit)
	if bad != nil {
		return errors.Join(err, bad)
	}
	if again := in(dir, func(root *os.Root) error { return useRoom(root, data) }); again != nil {
		return errors.Join(err, again)
	}
	return nil
}

// useRoom makes the file that keeps room for an exit record that record. What is left of its
// spaces belongs to no value of the JSON.
func useRoom(root *os.Root, data []byte) error {
	f, err := root.OpenFile(startingFile, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(startingFile, exitFile)
}

// errDamaged: what a record holds is no record. It will not become readable.
var errDamaged = errors.New("damaged")

// readRecord reads a record. ok is false if there is none.
func readRecord(dir, name string, value any) (ok bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		if err = json.Unmarshal(data, value); err == nil {
			return true, nil
		}
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return false, fmt.Errorf("record %s: %w", filepath.Join(dir, name), err)
}

// removeRecord removes a record.
func removeRecord(dir, name string) error {
	return in(dir, func(root *os.Root) error { return durable.Remove(root, name) })
}

// in runs f with the folder open.
func in(dir string, f func(*os.Root) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(f(root), root.Close())
}
