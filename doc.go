// Package podwright is the kubelet's pod lifecycle engine as a library: hand it
// desired pods and a container runtime, and it drives every pod from Pending to
// gone, and reports truthfully, across crashes of itself and of the runtime.
//
//	desired state                                                     truth out
//	sources ──► syncloop ──► podworkers ──► podsync ─► runtime/pods ──► RuntimeService (CRI)
//	file, channel  │            │  ▲                    │                   │
//	or your own    │            │  │                    │                   │
//	               │            │  └── pleg.Cache ◄── pleg ◄── events + relist
//	               │            └──► status ──► StatusSink
//	               └──► cleanup (housekeeping) ──► podworkers, runtime/pods, status
//
// # Getting started
//
// Choose a runtime: package runtime/process needs no daemon and runs containers
// as plain processes, runtime/cri speaks to containerd or CRI-O, runtime/fake is
// for tests. Choose where desired pods come from: syncloop/source has a folder
// of manifests and an in-process channel. Then
//
//	engine, err := podwright.New(podwright.Config{
//		Runtime: rt, Images: rt,
//		Sources: []syncloop.Source{manifests},
//		RootDir: "/var/lib/agent",
//	})
//	…
//	err = engine.Run(ctx)
//
// [New] reports every problem of the configuration at once. [Engine.Run] blocks
// until its context ends and its goroutines are gone; the pods keep
// running, and the next Run finds them again. [Engine.Drain] stops them first.
//
// # Looking in
//
// [Engine.Pods] returns each pod with its status. [Engine.Explain] says where one pod stands
// and what it waits for, [Engine.Problems] what has waited longer than it should, and
// [Engine.Healthy] what keeps the engine from working. Statuses go to the sinks of package status
// as they change, events with the reasons that Kubernetes users know go to Config.Observe.Events,
// and metrics, under the kubelet's names, go to Config.Observe.MeterProvider.
//
// # The node
//
// Off unless asked for: Config.Eviction stops pods when the node runs out of memory,
// disk or process IDs (package cleanup/eviction), and [Engine.NodeConditions] returns the
// node's conditions. If a critical pod lacks only room, other pods make room for it (package
// syncloop/preemption). [Engine.Shutdown] stops pods by priority before the machine
// stops (package syncloop/shutdown). Config.NodeHooks are called for what an agent does
// for its node as a whole: its registration, its status, its lease.
//
// # What holds
//
//   - At most one thing happens to a pod at a time, and a bad pod harms only
//     itself: its panics, hung calls and failures do not reach others.
//   - Every step compares desired with observed. Events and timers are hints to
//     look again; losing one costs time, never the outcome.
//   - An idle pod has no goroutine and no timer of its own.
//   - What cannot be read back from the runtime is on the disk before anything acts on
//     it (package status/checkpoint), unless the disk does not take it (spec/cleanup.md
//     CK8). An agent that is killed at any moment loses no exit code, runs nothing twice
//     that must run once, and reports no ready pod as unready. After a power cut, ends
//     that are not on record are 137 ContainerStatusUnknown. [Engine.Recovery] says what it found.
//   - Nothing is global: any number of engines live in one process and share
//     nothing, as long as each has its own RootDir, and its own OwnerID where
//     they share a runtime.
//   - The engine only reads, stops and removes sandboxes and containers that carry
//     its owner label.
//
// docs/ARCHITECTURE.md describes the parts, and docs/spec the behaviour, rule by
// rule.
package podwright
