package node

import (
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// mergeConditions returns the Node's conditions, overwritten with ours. One whose status equals the
// Node's keeps the Node's transition time, which is older than this process; one that others changed
// in between has turned back now, not when the engine last saw it change (KN5).
func mergeConditions(had, ours []v1.NodeCondition) []v1.NodeCondition {
	merged := slices.Clone(had)
	for _, c := range ours {
		at := slices.IndexFunc(merged, func(h v1.NodeCondition) bool { return h.Type == c.Type })
		if at < 0 {
			merged = append(merged, c)
			continue
		}
		switch {
		case merged[at].Status == c.Status:
			c.LastTransitionTime = merged[at].LastTransitionTime
		case c.LastTransitionTime.Before(&merged[at].LastTransitionTime):
			c.LastTransitionTime = c.LastHeartbeatTime
		}
		merged[at] = c
	}
	return merged
}

// statusPatch returns a strategic merge patch of what differs, for the Node with this UID.
// Addresses are replaced as a whole, because the patch would merge them by type, and a type can
// occur several times.
func statusPatch(uid types.UID, had, want *v1.NodeStatus) ([]byte, error) {
	before, after := had.DeepCopy(), want.DeepCopy()
	before.Addresses, after.Addresses = nil, nil
	// Times are written in whole seconds; fractions would differ each time.
	for i := range after.Conditions {
		c := &after.Conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = wholeSeconds(c.LastHeartbeatTime), wholeSeconds(c.LastTransitionTime)
	}
	old, err := json.Marshal(v1.Node{Status: *before})
	if err != nil {
		return nil, err
	}
	updated, err := json.Marshal(v1.Node{Status: *after})
	if err != nil {
		return nil, err
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(old, updated, v1.Node{})
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	patch["metadata"] = map[string]any{"uid": uid}
	if !equality.Semantic.DeepEqual(had.Addresses, want.Addresses) {
		status, _ := patch["status"].(map[string]any)
		if status == nil {
			status = map[string]any{}
			patch["status"] = status
		}
		addresses := []any{map[string]any{"$patch": "replace"}}
		for _, a := range want.Addresses {
			addresses = append(addresses, a)
		}
		status["addresses"] = addresses
	}
	return json.Marshal(patch)
}

func wholeSeconds(t metav1.Time) metav1.Time {
	if t.IsZero() {
		return t
	}
	return metav1.NewTime(t.Truncate(time.Second))
}
