package reflection

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFailuresBackOff: an API server that refuses for a day is asked with pauses of up to
// 30 s, every failure is told, and the store is filled once it answers.
func TestFailuresBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		var away atomic.Bool
		var asked, failures atomic.Int64
		away.Store(true)
		r := Reflection{
			Name: "nodes", Example: &v1.Node{}, Store: store, Clock: clock.RealClock{},
			List: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) {
				if asked.Add(1); away.Load() {
					return nil, errors.New("connection refused")
				}
				return &v1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}, nil
			},
			Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				if away.Load() {
					return nil, errors.New("connection refused")
				}
				return watch.NewFake(), nil
			},
			Failed: func(error) { failures.Add(1) },
			Client: unstreamed{},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if want := int64(24 * time.Hour / pauseMax); asked.Load() < want || asked.Load() > want+10 || failures.Load() != asked.Load() {
			t.Errorf("asked %d times, %d failures; want about %d", asked.Load(), failures.Load(), want)
		}
		away.Store(false)
		<-time.After(pauseMax)
		synctest.Wait()
		if len(store.ListKeys()) != 1 {
			t.Error("the store is empty")
		}
		cancel()
		<-done
	})
}

// unstreamed is a client that cannot stream lists.
type unstreamed struct{}

// IsWatchListSemanticsUnSupported is how client-go asks.
func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }
