package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/dirlock"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/cri"
)

// checkpoints makes the runtime write the state of containers to files, one at a time (KH10).
type checkpoints struct {
	engine  Engine
	runtime cri.Checkpointer // nil: the runtime cannot
	dir     string
	now     func() time.Time
	log     logr.Logger
	turn    chan struct{} // holds one token while a checkpoint is made
}

// unfinished begins the names of the folders in which checkpoints are written.
const unfinished = ".unfinished-"

// handle answers POST /checkpoint/NAMESPACE/POD/CONTAINER with the kubelet's codes.
func (c *checkpoints) handle(w http.ResponseWriter, r *http.Request) {
	pod, err := podOf(c.engine, r)
	name := r.PathValue("container")
	if err == nil && !podinfo.HasContainer(pod, name) {
		err = &failure{http.StatusNotFound, fmt.Sprintf("container %v does not exist", name)}
	}
	var timeout int64
	if values := r.URL.Query()["timeout"]; err == nil && len(values) > 0 {
		if timeout, err = strconv.ParseInt(values[len(values)-1], 10, 64); err != nil || timeout < 0 {
			err = &failure{http.StatusNotFound, "cannot parse value of timeout parameter"}
		}
	}
	if err != nil {
		fail(w, err)
		return
	}
	file, err := c.make(r.Context(), pod, name, timeout)
	if err != nil {
		http.Error(w, fmt.Sprintf("checkpointing of %s/%s/%s failed (%v)", pod.Namespace, pod.Name, name, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		Items []string `json:"items"`
	}{[]string{file}})
}

// make writes the state of a running container and returns the file, which only its user can read,
// because it contains the memory of the container's processes.
func (c *checkpoints) make(ctx context.Context, pod *v1.Pod, container string, timeout int64) (file string, err error) {
	if c.runtime == nil {
		return "", errors.New("the container runtime makes no checkpoints")
	}
	id, err := running(pod, container)
	if err != nil {
		return "", err
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return "", err
	}
	if file, err = c.free(pod, container); err != nil {
		return "", err
	}
	if err := c.write(ctx, id, file, timeout); err != nil {
		return "", err
	}
	return file, nil
}

// write has the runtime write to a folder that is there for this call only, and moves the finished file to its place.
// A runtime whose call was cut off may still write: it then finds no folder, so no file is left.
func (c *checkpoints) write(ctx context.Context, id, file string, timeout int64) error {
	folder, err := os.MkdirTemp(c.dir, unfinished)
	if err != nil {
		return err
	}
	defer c.clear()
	lock, err := dirlock.Acquire(folder, "") // keeps clear away, also that of another process
	if err != nil {
		return err
	}
	defer lock.Release()
	draft := filepath.Join(folder, filepath.Base(file))
	err = c.runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{ContainerId: id, Location: draft, Timeout: timeout})
	if err == nil {
		err = os.Chmod(draft, 0o600)
	}
	if err == nil {
		err = os.Rename(draft, file)
	}
	return err
}

// clear removes unfinished files, also those of an agent that was killed, or that could not be removed before: they
// contain the memory of processes. A folder that is locked is in use, maybe by the agent beside which this one was started by
// mistake. A failure to remove one fails no checkpoint.
func (c *checkpoints) clear() {
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	for _, e := range entries {
		folder := filepath.Join(c.dir, e.Name())
		if !strings.HasPrefix(e.Name(), unfinished) {
			continue
		}
		if _, held := dirlock.Holder(folder); !held {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	if err != nil {
		c.log.Error(err, "An unfinished checkpoint cannot be removed")
	}
}

// free returns the name of the next file, the same as the kubelet's. Two in the same second differ
// by the fraction.
func (c *checkpoints) free(pod *v1.Pod, container string) (file string, err error) {
	now := c.now()
	for _, layout := range []string{time.RFC3339, time.RFC3339Nano} {
		file = filepath.Join(c.dir, fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", pod.Name, pod.Namespace, container, now.Format(layout)))
		switch _, err := os.Lstat(file); {
		case errors.Is(err, os.ErrNotExist):
			return file, nil
		case err != nil: // such as a name that is too long
			return "", err
		}
	}
	return "", fmt.Errorf("%s exists already", file)
}
