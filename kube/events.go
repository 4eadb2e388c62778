package kube

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// recorder passes events to the API server through client-go's recorder, which merges
// similar ones and limits those about one object (KV4). While the API server is away it
// keeps at most a thousand and drops what comes on top. Events before run are dropped: no
// pod runs then.
type recorder struct {
	client *kubernetes.Clientset
	node   string
	inner  atomic.Pointer[record.EventRecorder]
}

func newRecorder(client *kubernetes.Clientset, node string) *recorder {
	return &recorder{client: client, node: node}
}

// Eventf implements podwright.EventRecorder.
func (r *recorder) Eventf(object apiruntime.Object, eventtype, reason, messageFmt string, args ...any) {
	if inner := r.inner.Load(); inner != nil {
		(*inner).Eventf(object, eventtype, reason, messageFmt, args...)
	}
}

// run passes events on until ctx ends.
func (r *recorder) run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	watch := broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: r.client.CoreV1().Events(v1.NamespaceAll)})
	defer watch.Stop()
	var inner record.EventRecorder = broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "podwright", Host: r.node})
	r.inner.Store(&inner)
	defer r.inner.Store(nil)
	<-ctx.Done()
	return nil
}
