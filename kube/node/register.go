package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/answers"
)

// register makes the agent a Node: a new one, or the existing one of its name (KN1).
func (r *Registrar) register(ctx context.Context) error {
	if r.hasLeft() {
		return nil
	}
	want := r.initial()
	var node *v1.Node
	err := r.within(ctx, func(ctx context.Context) (err error) {
		node, err = r.options.Client.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
		return err
	})
	if answers.AlreadyExists(err) {
		node, err = r.adopt(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("register the Node %s: %w", r.options.Name, explained(err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.former = otherAgent(node.Status.NodeInfo.KubeletVersion, r.machine.KubeletVersion)
	r.uid, r.published, r.told, r.lease, r.written = node.UID, nil, nil, nil, ""
	select {
	case <-r.first:
	default:
		// Admission of the pods that follow uses the Node's labels, which must be known before its watch has begun.
		if err := r.store.Add(node); err != nil {
			return err
		}
		close(r.first)
	}
	return nil
}

// initial is the Node as it is created. Its conditions come with the first status.
func (r *Registrar) initial() *v1.Node {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: r.options.Name, Labels: map[string]string{}},
		Spec:       v1.NodeSpec{Taints: r.options.Taints},
	}
	maps.Copy(node.Labels, r.options.Labels)
	maps.Copy(node.Labels, map[string]string{
		v1.LabelHostname: r.options.Name, v1.LabelOSStable: r.machine.OperatingSystem, v1.LabelArchStable: r.machine.Architecture,
	})
	now := r.facts()
	now.apply(&node.Status)
	return node
}

// adopt takes over the existing Node, unless it is another machine's.
func (r *Registrar) adopt(ctx context.Context, want *v1.Node) (*v1.Node, error) {
	node, err := r.get(ctx)
	if err == nil {
		err = r.taken(ctx, node)
	}
	if err != nil {
		if !errors.Is(err, ErrTaken) {
			r.unseen() // the other machine may have renewed its lease meanwhile
		}
		return nil, err
	}
	missing := map[string]string{}
	for key, value := range want.Labels {
		if had, ok := node.Labels[key]; !ok || had != value {
			missing[key] = value
		}
	}
	if len(missing) == 0 {
		return node, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "labels": missing}})
	if err != nil {
		return nil, err
	}
	err = r.within(ctx, func(ctx context.Context) (err error) {
		node, err = r.options.Client.CoreV1().Nodes().Patch(ctx, r.options.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	return node, err
}

// taken returns an error if this machine must not take the Node: it shows another machine, whose lease has not been seen
// unchanged for as long as it lasts. The time of the renewal is that machine's, whose clock may be another.
func (r *Registrar) taken(ctx context.Context, node *v1.Node) error {
	theirs := node.Status.NodeInfo
	if !otherMachine(theirs, r.machine) {
		return nil
	}
	lease, err := r.readLease(ctx)
	if answers.NotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return nil
	}
	age := r.unrenewed(lease.Spec.RenewTime.Time)
	if age >= timing.Seconds(int64(*lease.Spec.LeaseDurationSeconds)) {
		return nil
	}
	return fmt.Errorf("%w: the machine with ID %q and system UUID %q holds its lease, which has been seen unchanged for %s of %d s; this one has %q and %q. "+
		"Give this agent another node name, or stop the other one and wait until its lease has run out",
		ErrTaken, theirs.MachineID, theirs.SystemUUID, age.Round(time.Second), *lease.Spec.LeaseDurationSeconds, r.machine.MachineID, r.machine.SystemUUID)
}

// unrenewed returns for how long another machine's lease has shown this renewal, by this machine's clock.
func (r *Registrar) unrenewed(renewal time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.options.Clock.Now(); r.theirs.since.IsZero() || !r.theirs.renewal.Equal(renewal) {
		r.theirs.renewal, r.theirs.since = renewal, now
	}
	return r.options.Clock.Since(r.theirs.since)
}

// unseen forgets since when another machine's lease is unchanged: only an unbroken series of readings shows that.
func (r *Registrar) unseen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.theirs.since = time.Time{}
}

// otherMachine reports whether two infos show different machines. An unknown ID tells nothing.
func otherMachine(a, b v1.NodeSystemInfo) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return differ(a.MachineID, b.MachineID) || differ(a.SystemUUID, b.SystemUUID)
}

// explained adds to an error of the API server what the operator can do.
func explained(err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w (the API server does not know the agent: is its certificate or token expired, or from another cluster?)", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w (the agent's user lacks a role for that, or its certificate is for a node of another name: system:node:NAME in the group system:nodes)", err)
	}
	return err
}
