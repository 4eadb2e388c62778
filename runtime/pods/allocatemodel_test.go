package pods_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime/pods"
)

// unreliableStore is a store that fails when told to.
type unreliableStore struct {
	memoryStore
	fails bool
}

func (s *unreliableStore) Save(uid types.UID, record []byte) error {
	if s.fails {
		return errors.New("told to fail")
	}
	return s.memoryStore.Save(uid, record)
}

func (s *unreliableStore) Remove(uid types.UID) error {
	if s.fails {
		return errors.New("told to fail")
	}
	return s.memoryStore.Remove(uid)
}

// node is a node with 10 CPUs whose pods come, change and go.
type allocatingNode struct {
	a     *pods.Allocations
	store *unreliableStore
	// pods are those that were admitted and have not ended, as they are desired.
	pods map[types.UID]*v1.Pod
	// heard are those that a source has named since the agent started.
	heard map[types.UID]bool
	// ending are those that have ended and are not forgotten.
	ending map[types.UID]bool
	// has is what the containers of each pod were given at most: they hold it.
	has map[types.UID]int64
}

const nodeCPUs = 10

func (n *allocatingNode) start(t *rapid.T) {
	var err error
	n.a, err = pods.NewAllocations(pods.AllocationOptions{
		Store: n.store,
		Active: func() (active []*v1.Pod) {
			for uid, p := range n.pods {
				if n.heard[uid] {
					active = append(active, p)
				}
			}
			return active
		},
		Allocatable: func() v1.ResourceList {
			return v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(nodeCPUs, resource.DecimalSI)}
		},
	})
	if err == nil {
		err = n.a.Load()
	}
	if err != nil {
		t.Fatal(err)
	}
	n.heard = map[types.UID]bool{}
}

func cpusOf(p *v1.Pod) int64 { return p.Spec.Containers[0].Resources.Requests.Cpu().Value() }

// forget releases what pods that have ended hold, as far as the store lets it.
func (n *allocatingNode) forget() {
	for uid := range n.ending {
		if n.a.Forget(uid) == nil {
			delete(n.ending, uid)
		}
	}
}

// admitted is what admission sees of the pods that have a place.
func (n *allocatingNode) admitted() (sum int64) {
	for _, p := range n.pods {
		sum += cpusOf(n.a.Granted(p))
	}
	return sum
}

func TestAllocatedNeverExceedsTheNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &allocatingNode{store: &unreliableStore{memoryStore: memoryStore{}}, pods: map[types.UID]*v1.Pod{}, ending: map[types.UID]bool{}, has: map[types.UID]int64{}}
		n.start(t)
		made := 0
		sized := func(uid types.UID, cpus int) *v1.Pod {
			p := apps(fmt.Sprint(cpus) + " 1000")
			p.UID, p.Name = uid, string(uid)
			return p
		}
		one := func(t *rapid.T) types.UID {
			if len(n.pods) == 0 {
				t.Skip("no pod")
			}
			uids := []types.UID{}
			for i := range made {
				if uid := types.UID(fmt.Sprint("u", i)); n.pods[uid] != nil {
					uids = append(uids, uid)
				}
			}
			return rapid.SampledFrom(uids).Draw(t, "pod")
		}
		sync := func(uid types.UID) {
			n.heard[uid] = true
			if p, _, err := n.a.Allocate(n.pods[uid]); err == nil {
				n.has[uid] = cpusOf(p)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for uid := range n.pods {
					if !n.heard[uid] {
						t.Skip("the agent does not know all pods yet")
					}
				}
				p := sized(types.UID(fmt.Sprint("u", made)), rapid.IntRange(1, 6).Draw(t, "cpus"))
				made++
				if n.admitted()+cpusOf(p) <= nodeCPUs {
					n.pods[p.UID] = p
					n.heard[p.UID] = true
					n.a.Admitted(p, time.Time{}, false)
				}
			},
			"change": func(t *rapid.T) {
				uid := one(t)
				n.pods[uid] = sized(uid, rapid.IntRange(1, 11).Draw(t, "cpus"))
			},
			"sync": func(t *rapid.T) { sync(one(t)) },
			"sync all": func(t *rapid.T) {
				for i := range made {
					if uid := types.UID(fmt.Sprint("u", i)); n.pods[uid] != nil {
						sync(uid)
					}
				}
			},
			"end": func(t *rapid.T) {
				uid := one(t)
				delete(n.pods, uid)
				delete(n.has, uid)
				n.ending[uid] = true
				n.forget()
			},
			"forget": func(*rapid.T) { n.forget() },
			"retry":  func(t *rapid.T) { n.a.Retry(rapid.Bool().Draw(t, "timed")) },
			"disk":   func(t *rapid.T) { n.store.fails = rapid.Bool().Draw(t, "fails") },
			"crash": func(t *rapid.T) {
				for uid, p := range n.pods {
					if n.has[uid] == 0 && cpusOf(p) != cpusOf(n.a.Granted(p)) {
						t.Skip("nothing says what a pod was admitted with that never synced")
					}
				}
				n.start(t)
				for uid, p := range n.pods {
					if n.has[uid] == 0 {
						n.a.Admitted(p, time.Time{}, false)
						n.heard[uid] = true
					}
				}
			},
			"": func(t *rapid.T) {
				sum := int64(0)
				for _, cpus := range n.has {
					sum += cpus
				}
				if sum > nodeCPUs {
					t.Fatalf("%d CPUs of %d: %v", sum, nodeCPUs, n.has)
				}
				for uid := range n.store.memoryStore {
					if n.pods[uid] == nil && !n.ending[uid] {
						t.Fatalf("the record of pod %s, which is gone, is left", uid)
					}
				}
			},
		})
	})
}
