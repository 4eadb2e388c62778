package kube

import (
	"net"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/podwright/podwright/kube/node"
)

// clients are those of one API server. They share connections, which can all be closed.
type clients struct {
	all *kubernetes.Clientset
	// leases has a limiter of its own: a node whose other calls wait stays alive (KT7).
	leases *kubernetes.Clientset
	// events has a limiter of its own too: a storm of them delays no status.
	events      *kubernetes.Clientset
	connections *connrotation.Dialer
	skew        *node.Skew
}

func newClients(config *rest.Config) (*clients, error) {
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	c := &clients{connections: connrotation.NewDialer(dial), skew: &node.Skew{}}
	config.Dial = c.connections.DialContext
	config.Wrap(c.skew.Wrap)
	if config.UserAgent == "" {
		config.UserAgent = "podwright"
	}
	if config.QPS == 0 { // as the kubelet's
		config.QPS, config.Burst = 50, 100
	}
	var err error
	if c.all, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.leases, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	c.events, err = kubernetes.NewForConfig(config)
	return c, err
}
