package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
)

// leavingFile says that the agent of the Node that it names leaves because that was deleted (KN7). It exists until the
// agent has left: whatever ends the agent before, the next one must not register the Node again.
func (a *Agent) leavingFile() string { return filepath.Join(a.rootDir, "state", "node-gone") }

// leave does what the policy says when the Node is gone, and returns why Run ends. It is not over if the end of ctx
// interrupted it.
func (a *Agent) leave(ctx context.Context, engine Engine) (why error, over bool) {
	err := a.onDisk(ctx, "the record that the agent leaves", func() error { return durable.WriteFile(a.leavingFile(), []byte(a.name+"\n")) })
	if err != nil {
		a.logger.Error(err, "It cannot be recorded that the agent leaves; if it is killed before it has left, the next one registers the Node again")
	}
	if a.options.WhenGone == Drain {
		if err := engine.Drain(ctx); err != nil {
			return fmt.Errorf("kube: %w; not all pods could be stopped: %w", ErrNodeGone, err), ctx.Err() == nil
		}
	}
	return fmt.Errorf("kube: %w", ErrNodeGone), true
}

// stillLeaving reports whether an earlier agent of this Node was ended before it had left.
func (a *Agent) stillLeaving(ctx context.Context) bool {
	var content []byte
	err := a.onDisk(ctx, "the look whether an agent was leaving", func() (err error) {
		content, err = os.ReadFile(a.leavingFile())
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		// Nor may a later one, which would drain a node that has joined.
		a.logger.Error(err, "It is not known whether the last agent was leaving; this one does not", "file", a.leavingFile())
	case a.options.WhenGone != Rejoin && strings.TrimSpace(string(content)) == a.name:
		a.logger.Info("The Node was deleted, and the last agent was ended before it had left: this one leaves, too. The next start joins", "node", a.name)
		return true
	}
	a.haveLeft(ctx)
	return false
}

// haveLeft records that the agent has left: the next start is one of the operator, who wants the node to join.
func (a *Agent) haveLeft(ctx context.Context) {
	err := a.onDisk(ctx, "the record that the agent has left", func() error {
		root, err := os.OpenRoot(filepath.Dir(a.leavingFile()))
		if err != nil {
			return err
		}
		return errors.Join(durable.Remove(root, filepath.Base(a.leavingFile())), root.Close())
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.logger.Error(err, "It cannot be recorded that the agent has left; remove the file, otherwise the next start ends in the same way", "file", a.leavingFile())
	}
}

// onDisk waits 10 s for the disk, also if ctx ends: what it holds up, such as a drain, is more important than the record.
func (a *Agent) onDisk(ctx context.Context, name string, do func() error) error {
	call := foreign.Call{Kind: problem.Function, Name: name, Patience: problem.RecordLimit}
	_, err := foreign.Ask(context.WithoutCancel(ctx), a.disk, call, foreign.Limits{Wait: problem.RecordLimit}, func(context.Context) (struct{}, error) {
		a.onDiskNow.Lock() // one that was left behind comes first
		defer a.onDiskNow.Unlock()
		return struct{}{}, do()
	})
	return err
}

// leaveDisk ends Run's wait for the disk.
func (a *Agent) leaveDisk() {
	a.disk.Leave(a.logger)
}
