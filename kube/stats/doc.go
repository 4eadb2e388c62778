// Package stats measures a node and its pods, and shows the result as a kubelet does, for
// metrics-server, autoscalers and dashboards (docs/spec/kube.md, KV1-KV3).
//
//	CRI: pods' or containers' statistics, lists ─┐
//	cgroups (v1, v2), /proc/PID/net/dev ─────────┼─► reading ─┬─► /stats/summary
//	/proc: the machine; file systems ────────────┤            ├─► /metrics/resource
//	Engine: pods, their folders ─────────────────┘            └─► /metrics/cadvisor
//
// [Source.ServeSummary], [Source.ServeResource] and [Source.ServeContainers] are the pages; package server serves
// them with authorisation. [Source.Summary] is for programs.
//
// Nothing runs between scrapes. A scrape makes a reading of the parts that its page shows, or uses
// one that another scrape made less than [Options.MaxAge] ago; while one reads, the others wait. A
// runtime that does not answer costs its scrapers [Options.Timeout] and affects nothing else. A volume with a mount
// that does not answer costs one scrape the time that walks may take; until it answers, scrapes do without it.
//
// The runtime's numbers come first. What it does not report is read from the cgroup of the container or
// pod, and the traffic of a pod's interfaces from a process in its sandbox. A pod without its own
// cgroup uses the sum of what its containers use and have used, as far as the source has seen them.
//
// Only numbers of what runs are remembered between readings, for rates and so that no counter
// decreases.
package stats
