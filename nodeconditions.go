package podwright

import v1 "k8s.io/api/core/v1"

// NodeConditions returns how the node is: MemoryPressure, DiskPressure and PIDPressure,
// if [Config.Eviction] watches the node, and last Ready, which says whether the runtime
// and its network are usable. The list is the caller's; the times of Ready are those of
// the call.
func (e *Engine) NodeConditions() []v1.NodeCondition { return e.state.Conditions(nil) }
