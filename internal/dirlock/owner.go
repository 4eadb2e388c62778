package dirlock

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
)

// ErrOtherOwner is returned by [AcquireRoot] for a folder that holds pods of another owner.
var ErrOtherOwner = errors.New("the folder holds the pods of another owner")

// OwnerOf returns the owner for whom the engine on a root folder works: as configured; or else the one whose pods the folder
// holds, because under any other these would be strangers; or else the node's name.
func OwnerOf(root, configured, node string, logger logr.Logger) string {
	noted := ""
	if configured == "" {
		noted = tenant(root)
	}
	if noted != "" && noted != node {
		logger.Info("The node has another name than the owner of the pods in its folder, who stays their owner", "rootDir", root, "node", node, "ownerID", noted)
	}
	return cmp.Or(configured, noted, node)
}

// AcquireRoot locks the root folder of an engine like [Acquire], unless it holds pods of another owner: the engine would not know
// their containers, would start them a second time and remove their volumes.
func AcquireRoot(root, owner string) (*Lock, error) {
	l, err := take(root)
	if err != nil {
		return nil, err
	}
	if noted := tenant(root); noted != "" && noted != owner {
		err := fmt.Errorf("%w: %s is that of the OwnerID %q, and this engine, with %q, would start its pods a second time beside their containers and remove their volumes; set Node.OwnerID to %q, or leave it empty, which keeps that of the pods; or drain the node under that ID first, and remove the folder",
			ErrOtherOwner, root, noted, owner, noted)
		return nil, errors.Join(err, l.Release())
	}
	l.note(owner)
	return l, nil
}

// tenant returns the owner for whom a root folder was locked last if it holds pods, or "" if it holds none or has no usable note.
func tenant(root string) string {
	pods, err := os.ReadDir(filepath.Join(root, "pods"))
	if err != nil || !slices.ContainsFunc(pods, os.DirEntry.IsDir) {
		return ""
	}
	f, err := os.Open(filepath.Join(root, fileName))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if owner, err := read(f); err == nil && !strings.Contains(owner, "\x00") { // what a loss of power may leave
		return owner
	}
	return ""
}
