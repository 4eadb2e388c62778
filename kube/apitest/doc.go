// Package apitest runs a real control plane for tests: etcd, kube-apiserver, and optionally
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
// The programs are built from the module in servers/, which pins Kubernetes and etcd, and metrics-server
// from the module in metricsserver/; none of their packages is imported. The first build takes minutes.
// PODWRIGHT_KUBERNETES and PODWRIGHT_METRICS_SERVER name folders with programs that are already built.
//
// Everything listens on loopback, on ports that the system chooses, and ends with the test, or with
// its process if that is killed. Tests that use it have the build tag apiserver, and APIServer in
// their names.
package apitest
