package kube

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/kube/offline"
)

// Offline says what a node keeps on disk, so that its pods start without an API server: after a power cut on a site
// whose link is down (KO8). Pods themselves are always on record; without a cache, what they refer to is not.
type Offline struct {
	// Cache keeps the config maps and secrets of the node's pods, the services of their namespaces, runtime
	// classes, and the tokens, certificates and trust bundles issued to pods. Secrets are then on disk.
	Cache bool
	// Dir is the absolute folder of the cache. Empty means offline in the engine's RootDir.
	Dir string
	// Keys seal the cache, newest first. Nil means that anyone who can read the disk can read the cache.
	Keys []offline.Key
	// MaxBytes bounds the cache. 0 means 256 MiB.
	MaxBytes int64
}

func (o Offline) check() error {
	if !o.Cache && (o.Dir != "" || len(o.Keys) > 0 || o.MaxBytes != 0) {
		return errors.New("the settings of Offline mean nothing without Offline.Cache")
	}
	return nil
}

// tidyPeriod is how often entries that no pod needs are looked for.
const tidyPeriod = time.Minute

// keeping is what an agent keeps for periods without an API server. Without a cache it does nothing.
type keeping struct {
	cache *offline.Cache
	// delivered is closed once the API server has listed the node's pods.
	delivered chan struct{}
	once      sync.Once
	// renew requests again what was issued and is overdue, and returns the pods that it was issued to.
	renew []func() []types.UID
	// early is the Node as it was before the start, nil if that is not known; last is the one that was last stored.
	early *v1.Node
	last  atomic.Pointer[v1.Node]
}

// makeKeeping opens the cache, if one is configured.
func (a *Agent) makeKeeping(c *podwright.Config) (err error) {
	a.keeping.delivered = make(chan struct{})
	o := a.options.Offline
	if !o.Cache {
		return nil
	}
	if o.Dir == "" {
		if o.Dir, err = filepath.Abs(filepath.Join(c.RootDir, "offline")); err != nil {
			return err
		}
	}
	a.keeping.cache, err = offline.Open(offline.Options{
		Dir: o.Dir, Keys: o.Keys, MaxBytes: o.MaxBytes, Clock: c.Clock, Logger: c.Observe.Logger.WithName("offline"), Meter: meter(c, "offline"),
	})
	if err != nil {
		return err
	}
	if node := (&v1.Node{}); a.keeping.cache.Get(offline.Entry{Kind: offline.Node}, node) {
		a.keeping.early = node
	}
	return nil
}

// heard records that the API server has listed the node's pods.
func (k *keeping) heard() { k.once.Do(func() { close(k.delivered) }) }

// node returns the Node as watched or, before that, as it was before the start.
func (k *keeping) node(watched *v1.Node) *v1.Node {
	if watched == nil {
		return k.early
	}
	if k.cache != nil && k.last.Swap(watched) != watched {
		k.cache.Put(offline.Entry{Kind: offline.Node}, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: watched.Name, UID: watched.UID, Labels: watched.Labels},
			Spec:       v1.NodeSpec{PodCIDR: watched.Spec.PodCIDR, PodCIDRs: watched.Spec.PodCIDRs, Taints: watched.Spec.Taints},
			Status:     v1.NodeStatus{Addresses: watched.Status.Addresses},
		})
	}
	return watched
}

// addresses returns the node's addresses, or its earlier ones: without a network a machine may not know them.
func (k *keeping) addresses(now []string) []string {
	if len(now) == 0 && k.early != nil {
		return internalIPs(k.early.Status.Addresses)
	}
	return now
}

// runKeeping writes the cache until ctx ends, and renews what is overdue once the API server is
// back. From then on it removes entries that no pod needs.
func (a *Agent) runKeeping(ctx context.Context) error {
	var written sync.WaitGroup
	defer written.Wait()
	written.Go(func() {
		if err := a.keeping.cache.Run(ctx); err != nil {
			a.logger.Error(err, "The offline cache is not written")
		}
	})
	select {
	case <-a.keeping.delivered:
	case <-ctx.Done():
		return nil
	}
	engine := *a.engine.Load()
	var overdue []types.UID
	for _, renew := range a.keeping.renew {
		overdue = append(overdue, renew()...)
	}
	engine.Refresh(overdue...)
	for timing.Sleep(ctx, a.clock, tidyPeriod) == nil {
		a.keeping.cache.Retain(wanted(engine.Pods(), a.objects.InUse))
	}
	return nil
}

// wanted returns which entries a start with these pods needs; objects in use are followed already.
// A pod that has ended needs nothing that was issued to it.
func wanted(pods []v1.Pod, inUse func(objects.Object) bool) func(offline.Entry) bool {
	living, bundles := map[types.UID]bool{}, false
	namespaces, accounts := map[string]bool{v1.NamespaceDefault: true}, map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		if podinfo.Terminal(pod.Status.Phase) {
			continue
		}
		living[pod.UID], namespaces[pod.Namespace], accounts[pod.Namespace+"/"+pod.Spec.ServiceAccountName] = true, true, true
		bundles = bundles || projectsBundle(pod)
	}
	return func(e offline.Entry) bool {
		switch e.Kind {
		case offline.ConfigMap, offline.Secret:
			return inUse(objects.Object{Kind: e.Kind, Namespace: e.Namespace, Name: e.Name})
		case offline.Token, offline.PodCertificate:
			return living[e.Pod]
		case offline.Services:
			return namespaces[e.Namespace]
		case offline.ServiceAccount:
			return accounts[e.Namespace+"/"+e.Name]
		case offline.TrustBundle:
			return bundles
		}
		return e.Kind == offline.Node || e.Kind == offline.RuntimeClasses
	}
}

func projectsBundle(pod *v1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ClusterTrustBundle != nil {
				return true
			}
		}
	}
	return false
}
