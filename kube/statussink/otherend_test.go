package statussink_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/kube/internal/memoryapi"
	"github.com/podwright/podwright/kube/statussink"
	"github.com/podwright/podwright/status"
)

// TestAnotherEndBetweenReadAndWrite (KT2): the watch shows that somebody else has ended the pod, after its status was read and
// before its end is written: the other end stays.
func TestAnotherEndBetweenReadAndWrite(t *testing.T) {
	server := memoryapi.New(nil)
	client := func(user string) kubernetes.Interface {
		return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", Transport: server.Transport(user)})
	}
	pods := client("").CoreV1().Pods("ns")
	watched, err := pods.Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}, Spec: v1.PodSpec{NodeName: "edge-1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sink, err := statussink.New(statussink.Options{Client: client("edge-1"), Lookup: func(types.UID) *v1.Pod { return watched }})
	if err != nil {
		t.Fatal(err)
	}
	ref := status.PodRef{UID: "u", Namespace: "ns", Name: "p"}
	read, err := sink.ReadPod(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	other := read.DeepCopy()
	other.Status.Phase = v1.PodFailed
	if watched, err = pods.UpdateStatus(t.Context(), other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	result, err := sink.Store(t.Context(), status.Update{PodRef: ref, Status: &v1.PodStatus{Phase: v1.PodSucceeded}, Base: &read.Status})
	if err != nil || result != status.Conflict {
		t.Errorf("%s, %v", result, err)
	}
	if now, err := pods.Get(t.Context(), "p", metav1.GetOptions{}); err != nil || now.Status.Phase != v1.PodFailed {
		t.Errorf("the pod is %s, %v", now.Status.Phase, err)
	}
}
