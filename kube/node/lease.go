package node

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/kube/internal/answers"
)

// renewAttempts is how often one renewal is tried without a pause: the second attempt uses a new
// connection if the first one got no answer.
const renewAttempts = 2

// renew renews the lease for duration (KN6). There is none to renew while the agent is not
// registered as a Node.
func (r *Registrar) renew(ctx context.Context, duration time.Duration) error {
	var err error
	for range renewAttempts {
		uid := r.nodeUID()
		if uid == "" {
			return nil
		}
		if err = r.renewOnce(ctx, uid, duration); err == nil || ctx.Err() != nil {
			return err
		}
		r.setLease(uid, nil) // read it again: another writer, or an outage during the write
	}
	return fmt.Errorf("renew the lease of the Node %s: %w", r.options.Name, explained(err))
}

func (r *Registrar) renewOnce(ctx context.Context, uid types.UID, duration time.Duration) error {
	r.mu.Lock()
	known := r.lease
	r.mu.Unlock()
	if known == nil {
		var err error
		if known, err = r.readLease(ctx); answers.NotFound(err) {
			return r.createLease(ctx, uid, duration)
		} else if err != nil {
			return err
		}
	}
	var renewed *coordinationv1.Lease
	err := r.within(ctx, func(ctx context.Context) (err error) {
		renewed, err = r.options.Leases.Leases(v1.NamespaceNodeLease).Update(ctx, r.leaseFrom(known, uid, duration), metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	r.setLease(uid, renewed)
	return nil
}

// createLease creates the first lease of a Node. A lease usually disappears because its Node did:
// the garbage collector removes them together.
func (r *Registrar) createLease(ctx context.Context, uid types.UID, duration time.Duration) error {
	if gone, err := r.confirmGone(ctx); gone || err != nil {
		return err
	}
	var created *coordinationv1.Lease
	err := r.within(ctx, func(ctx context.Context) (err error) {
		empty := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: r.options.Name, Namespace: v1.NamespaceNodeLease}}
		created, err = r.options.Leases.Leases(v1.NamespaceNodeLease).Create(ctx, r.leaseFrom(empty, uid, duration), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	r.setLease(uid, created)
	return nil
}

// leaseFrom returns the lease, renewed now and owned by the Node, so that it is deleted with the Node.
func (r *Registrar) leaseFrom(known *coordinationv1.Lease, uid types.UID, duration time.Duration) *coordinationv1.Lease {
	lease := known.DeepCopy()
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: r.options.Name, UID: uid}}
	lease.Spec.HolderIdentity = ptr.To(r.options.Name)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(duration / time.Second))
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(r.options.Clock.Now()))
	return lease
}

func (r *Registrar) readLease(ctx context.Context) (lease *coordinationv1.Lease, err error) {
	err = r.within(ctx, func(ctx context.Context) error {
		lease, err = r.options.Leases.Leases(v1.NamespaceNodeLease).Get(ctx, r.options.Name, metav1.GetOptions{})
		return err
	})
	return lease, err
}

// setLease keeps the lease for the next renewal, if the agent is still the same Node.
func (r *Registrar) setLease(uid types.UID, lease *coordinationv1.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uid == uid {
		r.lease = lease
	}
}
