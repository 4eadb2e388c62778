package eviction_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/cleanup/eviction"
)

// battery reads a battery. A real one reads a file below /sys/class/power_supply.
type battery struct{ percent uint64 }

func (b *battery) Observe(context.Context) (eviction.Observation, error) {
	return eviction.Observation{Available: b.percent, Capacity: 100}, nil
}

// machine stands in for what an engine does: it knows two pods, and stops one.
type machine struct {
	stopped context.CancelFunc
	pods    []*v1.Pod
}

func (m *machine) Kill(_ context.Context, pod *v1.Pod, grace *int64, amend func(*v1.PodStatus)) error {
	var status v1.PodStatus
	amend(&status)
	fmt.Printf("%s gets %d s: %s. %s\n", pod.Name, *grace, status.Reason, status.Message)
	m.stopped()
	return nil
}

func (m *machine) Finished(types.UID) bool { return true }

func (m *machine) Node(context.Context) (map[eviction.Signal]eviction.Observation, error) {
	return nil, nil // memory and disks are of no interest here
}

func (m *machine) Pod(context.Context, *v1.Pod, eviction.Signal) (eviction.Usage, error) {
	return eviction.Usage{}, nil
}

// A battery below 10 % costs the pod with the lowest priority at once; below 30 % it does so after 10
// minutes. An engine takes the same policy as podwright.Config.Eviction.Policy.
func ExampleOwnSignal() {
	charge := &battery{percent: 7}
	policy := eviction.Policy{
		Own: []eviction.OwnSignal{{
			Name: "battery.charge", Condition: "BatteryLow", Message: "the battery is nearly empty", Observer: charge,
		}},
		Thresholds: append(eviction.DefaultThresholds(),
			eviction.Threshold{Signal: "battery.charge", Value: eviction.Value{Percent: 10}},
			eviction.Threshold{Signal: "battery.charge", Value: eviction.Value{Percent: 30}, Grace: 10 * time.Minute}),
	}

	ctx, cancel := context.WithCancel(context.Background())
	node := &machine{stopped: cancel}
	for name, priority := range map[string]int32{"camera": 1000, "backup": 10} {
		node.pods = append(node.pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{Priority: ptr.To(priority)}})
	}
	manager, err := eviction.New(eviction.Options{Policy: policy, Stats: node, Killer: node, Pods: func() []*v1.Pod { return node.pods }})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := manager.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("the node has", manager.Pressure())
	// Output:
	// backup gets 1 s: Evicted. Eviction signal battery.charge: the battery is nearly empty. Threshold quantity: 10, available: 7.
	// the node has [BatteryLow]
}

// A licence is a plain verdict, so its limit needs no value: pods go a day after it has expired.
func ExampleObserverFunc() {
	expired := time.Date(2026, time.May, 3, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { return expired.Add(time.Hour) }
	policy := eviction.Policy{
		Own: []eviction.OwnSignal{{
			Name: "licence", Condition: "example.com/Unlicensed", Message: "the licence has expired",
			Observer: eviction.ObserverFunc(func(context.Context) (eviction.Observation, error) {
				return eviction.Observation{Low: now().After(expired), Message: "the licence expired on " + expired.Format(time.DateOnly)}, nil
			}),
		}},
		Thresholds: append(eviction.DefaultThresholds(), eviction.Threshold{Signal: "licence", Grace: 24 * time.Hour}),
	}
	got, err := policy.Own[0].Observer.Observe(context.Background())
	fmt.Println(got.Low, got.Message, err)
	// Output:
	// true the licence expired on 2026-05-03 <nil>
}
