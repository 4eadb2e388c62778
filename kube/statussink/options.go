package statussink

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Options configures [New]. Client is required.
type Options struct {
	// Client talks to the API server. Its rate limiter and retries do not apply to the calls of the
	// sink, which has its own (KT7). It must be the client of a real server: client-go's fake
	// clientset has no REST client.
	Client kubernetes.Interface
	// Lookup returns the pod with a UID as the watch shows it, nil if it shows none; after nil it
	// must not return an older copy. With it a status takes one call, not two (KT5). It is called
	// from many goroutines and must not block. The pod is read-only. Nil means that the pod is read
	// before each write.
	Lookup func(uid types.UID) *v1.Pod
	// QPS and Burst limit the calls of the sink, for all pods together. 0 means 50 and 100, as for
	// a kubelet.
	QPS   float64
	Burst int
	// Clock is the agent's time. Nil means the real clock.
	Clock clock.WithTicker
}

func (o *Options) complete() (rest.Interface, error) {
	var problems []error
	if o.QPS < 0 || o.Burst < 0 {
		problems = append(problems, errors.New("QPS and Burst are positive, or 0 for 50 and 100"))
	}
	if o.QPS == 0 {
		o.QPS = 50
	}
	if o.Burst == 0 {
		o.Burst = 100
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	client, err := restClient(o.Client)
	return client, errors.Join(append(problems, err)...)
}

// restClient returns the core group's client in a clientset.
func restClient(client kubernetes.Interface) (rest.Interface, error) {
	if client == nil {
		return nil, errors.New("no Client: it is required: a client of the API server")
	}
	c := client.CoreV1().RESTClient()
	if typed, ok := c.(*rest.RESTClient); c == nil || ok && typed == nil {
		return nil, errors.New("the Client has no REST client, as client-go's fake clientset; make one with kubernetes.NewForConfig, in tests with a transport of your own")
	}
	return c, nil
}
