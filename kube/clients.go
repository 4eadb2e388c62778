package kube

import (
	"net"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/podwright/podwright/kube/node"
)

// clients are the clients of one API server. They share connections, which can all be closed.
type clients struct {
	all *kubernetes.Clientset
	// leases has its own rate limiter: a node stays alive even while its other calls wait (KT7).
	leases *kubernetes.Clientset
	// events has its own rate limiter too: a storm of events delays no status.
	events *kubernetes.Clientset
	// objects has its own rate limiter too: a pod may refer to thousands of objects, each with a list of its own (KO12).
	objects     *kubernetes.Clientset
	connections *connrotation.Dialer
	skew        *node.Skew
}

// dialed returns a copy of a configuration whose connections can all be closed.
func dialed(config *rest.Config) (*rest.Config, *connrotation.Dialer) {
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	dialer := connrotation.NewDialer(dial)
	config.Dial = dialer.DialContext
	return config, dialer
}

// newClients makes clients from the caller's configuration, whose connections come from the dialer.
func newClients(config *rest.Config, dialer *connrotation.Dialer) (*clients, error) {
	c := &clients{connections: dialer, skew: &node.Skew{}}
	config.Wrap(c.skew.Wrap)
	config.Wrap(beDiscreet)
	if config.UserAgent == "" {
		config.UserAgent = "podwright"
	}
	if config.QPS == 0 { // the kubelet's limits
		config.QPS, config.Burst = 50, 100
	}
	var err error
	if c.all, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.leases, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.events, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	c.objects, err = kubernetes.NewForConfig(config)
	return c, err
}
