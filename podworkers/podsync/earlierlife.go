package podsync

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// removeEarlierLife removes what the runtime has of an earlier life of a UID, and returns
// the view without it. A static pod that its source removed and wants again keeps its UID:
// without this, containers that do not restart after an exit would stay stopped in its new
// life. If something runs, it belongs to the current life, and nothing is removed.
func (s *Syncer) removeEarlierLife(ctx context.Context, uid types.UID, view *runtime.PodStatus) (*runtime.PodStatus, error) {
	if !s.o.Records.EarlierLife(uid) {
		return view, nil
	}
	if view != nil && !view.Running() && len(view.Sandboxes)+len(view.Containers) > 0 {
		if err := s.o.Content.RemovePod(ctx, uid); err != nil {
			return nil, fmt.Errorf("remove the pod's earlier life: %w", err)
		}
		fresh, err := s.reader.ReadNow(ctx, uid)
		if err != nil {
			return nil, fmt.Errorf("read the pod after removing its earlier life: %w", err)
		}
		view = fresh
	}
	if err := s.o.Records.EarlierLifeGone(ctx, uid); err != nil {
		return nil, fmt.Errorf("note that the pod's earlier life is gone: %w", err)
	}
	return view, nil
}
