// Package stats measures a node and its pods, and shows that as a kubelet does: metrics-server,
// autoscalers and dashboards read it (docs/spec/kube.md, KV1-KV3).
//
//	CRI: pods' or containers' statistics, lists ─┐
//	cgroups (v1, v2), /proc/PID/net/dev ─────────┼─► reading ─┬─► /stats/summary
//	/proc: the machine; file systems ────────────┤            ├─► /metrics/resource
//	Engine: pods, their folders ─────────────────┘            └─► /metrics/cadvisor
//
// [Source.ServeSummary], [Source.ServeResource] and [Source.ServeContainers] are the pages; package server serves
// them with authorisation. [Source.Summary] is for programs.
//
// Nothing runs between scrapes. A scrape makes a reading with the parts that its page shows, or takes
// that of another scrape which is less than [Options.MaxAge] old; while one reads the others wait. A
// runtime that does not answer costs its scrapers [Options.Timeout] and harms nothing else.
//
// The runtime is believed first. What it does not say is read from the cgroup of the container or pod,
// and what went through a pod's interfaces from a process in its sandbox. A pod without a cgroup of its
// own uses what its containers use and have used, as far as the source has seen them.
//
// What is remembered between readings, for rates and so that no counter goes back, is that of
// what runs.
package stats
