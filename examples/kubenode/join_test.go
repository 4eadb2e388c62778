//go:build apiserver && containerd

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podwright/podwright/kube/apitest"
)

// joinable is what a cluster has for nodes that join, as kubeadm makes it: a bootstrap token, the right to ask with it,
// and the approval of client certificates.
const joinable = `
apiVersion: v1
kind: Secret
metadata: {namespace: kube-system, name: bootstrap-token-abcdef}
type: bootstrap.kubernetes.io/token
stringData: {token-id: abcdef, token-secret: 0123456789abcdef, usage-bootstrap-authentication: "true"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: join-ask}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:node-bootstrapper}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:bootstrappers}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: join-approve}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:certificates.k8s.io:certificatesigningrequests:nodeclient}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:bootstrappers}]
`

// bootstrapKubeconfig writes one with the token, for this server.
func (c *cluster) bootstrapKubeconfig(path, server string) {
	c.t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.api.CA()}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "abcdef.0123456789abcdef"}
	file.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		c.t.Fatal(err)
	}
}

// TestContainerdAPIServerJoin: a machine with nothing but a bootstrap token becomes a node; kubectl logs works once its
// server's request is approved, and not before; the kubeconfig that it wrote is enough for the next start, which asks for nothing (KC1, KC4).
func TestContainerdAPIServerJoin(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, apitest.Options{Scheduler: true, Controllers: true, Args: []string{"--enable-bootstrap-token-auth"}})
	c.apply(joinable)
	dir := t.TempDir()
	bootstrap, kubeconfig := filepath.Join(dir, "bootstrap"), filepath.Join(dir, "kubeconfig")
	c.bootstrapKubeconfig(bootstrap, c.api.Admin().Host)
	flags := []string{"--kubeconfig=" + kubeconfig, "--rotate-certificates", "--rotate-server-certificates", "--tls-cert-file=", "--tls-private-key-file="}
	c.start(append(flags, "--bootstrap-kubeconfig="+bootstrap)...)
	c.until("Node Ready", 30*time.Second, c.nodeReady)

	run := func(name string) {
		c.kubectl("run", name, "--image="+c.runtime.Image, "--labels=app="+name, "--", "sh", "-c", "echo hello from "+name+"; sleep 1000")
		c.until(name+" Ready", 30*time.Second, c.ready("app="+name, 1))
	}
	logs := func(name string) func() error {
		return func() error {
			out, err := c.api.Kubectl(t.Context(), "logs", name)
			if err == nil && out != "hello from "+name+"\n" {
				err = errors.New(out)
			}
			return err
		}
	}
	run("first")
	if err := logs("first")(); err == nil {
		t.Error("the server shows a certificate that no one has approved")
	}
	requests := strings.Fields(c.kubectl("get", "csr", "-o", "name", "--field-selector", "spec.signerName=kubernetes.io/kubelet-serving"))
	c.kubectl(append([]string{"certificate", "approve"}, requests...)...)
	c.until("kubectl logs", 40*time.Second, logs("first"))

	c.until("the kubeconfig is written", 10*time.Second, func() error { _, err := os.Stat(kubeconfig); return err })
	c.kill(syscall.SIGKILL)
	if err := os.Remove(bootstrap); err != nil {
		t.Fatal(err)
	}
	c.start(flags...)
	run("second")
	c.until("kubectl logs", 10*time.Second, logs("second"))
	if first := c.pods("app=first"); len(first) != 1 || first[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("pods %+v", first)
	}
	if all := strings.Fields(c.kubectl("get", "csr", "-o", "name")); len(requests) != 1 || len(all) != 2 {
		t.Errorf("requests %q", all)
	}
}
