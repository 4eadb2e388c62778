// Package apitest runs a real control plane for tests: etcd, kube-apiserver, and if wanted
// kube-scheduler and kube-controller-manager, as processes of this machine.
//
//	servers/build.sh ──► programs, cached
//	                        │
//	Start ── etcd ──► kube-apiserver (TLS, RBAC, NodeRestriction) ──► Cluster
//	              ├─► kube-controller-manager                           │
//	              └─► kube-scheduler                                    ├─► Admin, Node, User: credentials
//	                                                                    ├─► APIServer, Etcd...: stop, freeze, restart
//	         Proxy ◄── connections that freeze or break                 └─► Snapshot, Rewind
//	         Gate ◄─── requests at which a test acts
//
// The programs are built from the module in servers/, which pins Kubernetes and etcd, and
// metrics-server from that in metricsserver/; no package of theirs is imported. The first build takes minutes.
// PODWRIGHT_KUBERNETES and PODWRIGHT_METRICS_SERVER name folders that have the programs already.
//
// Everything listens on loopback, on ports that the system chose, and ends with the test,
// or with its process if that is killed. Tests on it have the build tag apiserver and
// APIServer in their names.
package apitest
