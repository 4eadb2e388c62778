// Package admission judges whether a pod may run on this node, before anything of
// it exists.
//
//	                       ┌─ Verdicts: those given before a restart ──┐
//	new pod ──► Gate.Admit ┤                                           ├──► admitted: to its worker
//	                       └─ Handlers in order, first refusal wins ───┘└──► refused: status, event, metric
//
// A [Handler] is a function over values: the pod and the pods that already have a
// place on the node. The ready-made ones test
//
//   - [Resources]: requests against what the node can give,
//   - [PodCount]: the number of pods,
//   - [HostPorts]: ports of the node that another pod has,
//   - [Sysctls]: kernel settings that need permission,
//   - [Scarce]: the same for resources that few nodes have, such as GPUs and huge pages,
//   - [Able]: features that the node lacks, such as resource claims,
//   - [NodeMatch]: node name, operating system, architecture and labels,
//   - [PodSecurity]: the Pod Security Standards,
//   - [BySource]: the policy for the pods of each source,
//   - [Shutdown]: a node that is about to stop.
//
// A [Gate] asks them once in the life of a pod, and its verdict holds: a running pod is
// not refused because the agent was restarted on a node with less memory. A caller may
// also ask a handler softly, before every setup of a pod; then a refusal blocks the pod
// for as long as the refusal lasts.
//
// Rules are numbered as in docs/spec/syncloop.md 11.
package admission
