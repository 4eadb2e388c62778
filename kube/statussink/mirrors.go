package statussink

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/syncloop/mirror"
)

// Mirrors keeps mirror pods at an API server (KT9): it is the Client of the engine's
// mirror.Options. Make one with [NewMirrors].
//
// A server with the admission plugin NodeRestriction lets a node create only mirror pods that its
// own Node owns, and delete only its own pods. A refusal is an error that says so; the static pod
// runs in any case (MC4).
type Mirrors struct {
	pods corev1client.PodsGetter
}

var _ mirror.Client = (*Mirrors)(nil)

// NewMirrors returns a client of mirror pods. Its calls are few, and share the rate limiter of
// client.
func NewMirrors(client kubernetes.Interface) (*Mirrors, error) {
	if client == nil {
		return nil, errors.New("statussink: mirror pods need a client of the API server")
	}
	return &Mirrors{pods: client.CoreV1()}, nil
}

// Create implements [mirror.Client].
func (m *Mirrors) Create(ctx context.Context, pod *v1.Pod) error {
	_, err := m.pods.Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if answers.AlreadyExists(err) {
		return fmt.Errorf("%w: %w", mirror.ErrExists, err)
	}
	return err
}

// Get implements [mirror.Client].
func (m *Mirrors) Get(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	pod, err := m.pods.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case answers.NotFound(err):
		return nil, fmt.Errorf("%w: %w", mirror.ErrNotFound, err)
	case err != nil:
		return nil, err
	}
	return pod, nil
}

// Delete implements [mirror.Client]. If the call has no UID, the pod is read first: only mirror
// pods are deleted, and only the one that was read.
func (m *Mirrors) Delete(ctx context.Context, namespace, name string, uid types.UID) error {
	if uid == "" {
		pod, err := m.Get(ctx, namespace, name)
		if err != nil {
			return err
		}
		if _, ok := pod.Annotations[v1.MirrorPodAnnotationKey]; !ok {
			return fmt.Errorf("pod %s/%s is no mirror pod, it stays: %w", namespace, name, mirror.ErrPrecondition)
		}
		uid = pod.UID
	}
	err := m.pods.Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      &metav1.Preconditions{UID: &uid},
	})
	switch {
	case answers.NotFound(err):
		return fmt.Errorf("%w: %w", mirror.ErrNotFound, err)
	case answers.Conflict(err):
		return fmt.Errorf("%w: %w", mirror.ErrPrecondition, err)
	}
	return err
}
