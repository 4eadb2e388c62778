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
)

// leavingFile says that the agent of the Node that it names leaves because that was deleted (KN7). It exists until the
// agent has left: whatever ends the agent before, the next one must not register the Node again.
func (a *Agent) leavingFile() string { return filepath.Join(a.rootDir, "state", "node-gone") }

// leave does what the policy says when the Node is gone, and returns why Run ends. It is not over if the end of ctx
// interrupted it.
func (a *Agent) leave(ctx context.Context, engine Engine) (why error, over bool) {
	if err := durable.WriteFile(a.leavingFile(), []byte(a.name+"\n")); err != nil {
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
func (a *Agent) stillLeaving() bool {
	content, err := os.ReadFile(a.leavingFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err == nil && a.options.WhenGone != Rejoin && strings.TrimSpace(string(content)) == a.name:
		a.logger.Info("The Node was deleted, and the last agent was ended before it had left: this one leaves, too. The next start joins", "node", a.name)
		return true
	}
	a.haveLeft()
	return false
}

// haveLeft records that the agent has left: the next start is one of the operator, who wants the node to join.
func (a *Agent) haveLeft() {
	root, err := os.OpenRoot(filepath.Dir(a.leavingFile()))
	if err == nil {
		err = errors.Join(durable.Remove(root, filepath.Base(a.leavingFile())), root.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.logger.Error(err, "It cannot be recorded that the agent has left; remove the file, otherwise the next start ends in the same way", "file", a.leavingFile())
	}
}
