package apitest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// MetricsServerUser is metrics-server's user, also towards nodes, where the test grants it its rights.
const MetricsServerUser = "metrics-server"

// metricsAPI makes the API server forward requests for metrics.k8s.io, and grants metrics-server
// the rights it needs besides those on nodes.
const metricsAPI = `
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics-server, namespace: kube-system, port: PORT}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-server}
rules:
- {apiGroups: [""], resources: [pods, nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-server}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-server}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: metrics-server}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-server-reviews}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:auth-delegator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: metrics-server}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: metrics-server, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: metrics-server}]
`

// composeMetricsServer makes the process of metrics-server if it is requested, and adds the
// arguments that the API server needs for it.
func (c *Cluster) composeMetricsServer(ctx context.Context, options *Options) error {
	if !options.MetricsServer {
		return nil
	}
	folder, err := find(ctx, metricsServerVariable, "metricsserver")
	if err != nil {
		return err
	}
	ports, err := freePorts("127.0.0.1", 1)
	if err != nil {
		return err
	}
	const proxy = "front-proxy"
	if err := errors.Join(c.write(proxy, identity{name: proxy}), os.WriteFile(c.file("metrics-api.yaml"), []byte(strings.ReplaceAll(metricsAPI, "PORT", ports[0])), 0o600)); err != nil {
		return err
	}
	options.Args = append([]string{
		"--requestheader-client-ca-file=" + c.file("ca.crt"), "--requestheader-allowed-names=" + proxy, "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.file(proxy+".crt"), "--proxy-client-key-file=" + c.file(proxy+".key"),
	}, options.Args...)
	kubeconfig := c.file("metrics-server.kubeconfig")
	c.MetricsServer = c.process("metrics-server",
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port="+ports[0], "--cert-dir="+c.file("metrics-server"),
		"--kubelet-certificate-authority="+c.file("ca.crt"), "--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port",
		"--metric-resolution=10s", "--kubelet-request-timeout=9s") // 10s is the minimum, and the timeout must be shorter
	c.MetricsServer.program = filepath.Join(folder, "metrics-server")
	return nil
}

// ServeMetrics starts metrics-server and registers it with the API server. It asks the nodes at
// once and then every 10 s; from the second time on it knows what pods use.
func (c *Cluster) ServeMetrics(ctx context.Context) error {
	if c.MetricsServer == nil {
		return errors.New("metrics-server was not asked for")
	}
	if err := c.Kubeconfig(c.file("metrics-server.kubeconfig"), c.User(MetricsServerUser)); err != nil {
		return err
	}
	if out, err := c.Kubectl(ctx, "apply", "-f", c.file("metrics-api.yaml")); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return c.MetricsServer.Start()
}
