package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/kube"
)

// certificateFlags say how the node gets its certificates. They have the kubelet's names.
type certificateFlags struct {
	bootstrap, dir string
	rotate, server bool
	lifetime       time.Duration
}

// check reports flags that exclude each other.
func (f certificateFlags) check(o options) error {
	switch {
	case o.kubeconfig == "" && f.bootstrap == "":
		return errors.New("--kubeconfig is required: the file says how to reach the API server, and as whom; with --bootstrap-kubeconfig it is made")
	case f.server && o.certificate != "":
		return errors.New("--rotate-server-certificates and --tls-cert-file exclude each other: the server has one certificate")
	}
	return nil
}

// options returns the agent's options.
func (f certificateFlags) options(root string) (o kube.Certificates, err error) {
	o = kube.Certificates{Dir: f.dir, Rotate: f.rotate, Serving: f.server, Lifetime: f.lifetime}
	if o.Dir == "" {
		o.Dir = filepath.Join(root, "pki")
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, err
	}
	if f.bootstrap != "" {
		o.Bootstrap = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", f.bootstrap) }
	}
	return o, nil
}

// apiConfig says how to reach the API server. If the kubeconfig, or the certificate it names, is missing, the
// node bootstraps first, and write then writes the kubeconfig; write is nil if there is nothing to write.
func apiConfig(o options, dir string) (api *rest.Config, write func() error, err error) {
	if o.kubeconfig != "" {
		if api, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig); err == nil {
			return api, nil, nil
		}
	}
	if o.certificates.bootstrap == "" {
		return nil, nil, fmt.Errorf("--kubeconfig %s: %w", o.kubeconfig, err)
	}
	if api, err = clientcmd.BuildConfigFromFlags("", o.certificates.bootstrap); err != nil {
		return nil, nil, fmt.Errorf("--bootstrap-kubeconfig %s: %w", o.certificates.bootstrap, err)
	}
	if o.kubeconfig != "" {
		write = func() error {
			return writeKubeconfig(o.kubeconfig, api, filepath.Join(dir, "kubelet-client-current.pem"))
		}
	}
	return rest.AnonymousClientConfig(api), write, nil
}

// writeKubeconfig writes a kubeconfig that uses the certificate which the node was issued.
func writeKubeconfig(path string, api *rest.Config, pair string) error {
	file := clientcmdapi.NewConfig()
	file.Clusters["cluster"] = &clientcmdapi.Cluster{
		Server: api.Host, TLSServerName: api.ServerName, InsecureSkipTLSVerify: api.Insecure, CertificateAuthority: api.CAFile, CertificateAuthorityData: api.CAData,
	}
	file.AuthInfos["node"] = &clientcmdapi.AuthInfo{ClientCertificate: pair, ClientKey: pair}
	file.Contexts["node"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "node"}
	file.CurrentContext = "node"
	content, err := clientcmd.Write(*file)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, content)
}

// onceRegistered calls do once the node is registered. The returned function ends the wait.
func onceRegistered(ctx context.Context, registered <-chan struct{}, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-registered:
			do()
		case <-ctx.Done():
		}
	}()
	return func() { cancel(); <-done }
}
