package statussink

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patchOf returns the strategic merge patch from base to next, for one life of a pod and, unless
// version is empty, one version of it (KT1). It is nil if nothing differs.
func patchOf(uid types.UID, version string, base, next *v1.PodStatus) ([]byte, error) {
	was, err := json.Marshal(&v1.Pod{Status: *base})
	if err != nil {
		return nil, fmt.Errorf("the status read: %w", err)
	}
	will, err := json.Marshal(&v1.Pod{Status: *next})
	if err != nil {
		return nil, fmt.Errorf("the status to be written: %w", err)
	}
	difference, err := strategicpatch.CreateTwoWayMergePatch(was, will, &v1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("what differs in the status: %w", err)
	}
	if string(difference) == "{}" {
		return nil, nil
	}
	patch := struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Status   json.RawMessage   `json:"status"`
	}{Metadata: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	if err := json.Unmarshal(difference, &patch); err != nil {
		return nil, fmt.Errorf("what differs in the status: %w", err)
	}
	return json.Marshal(patch)
}
