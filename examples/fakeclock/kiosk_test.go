package fakeclock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/fakeclock"
	"github.com/podwright/podwright/runtime/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAlarm: a browser that crashes 2 s after each start restarts at once, then
// after 10, 20, 40, 80, 160 and 300 s. Ten minutes bring six restarts, and the
// alarm at the fifth.
func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{Exit: &fake.Exit{After: 2 * time.Second, Code: 1}}
		}})
		begin := time.Now()
		var alarmAt time.Duration
		kiosk, err := fakeclock.NewKiosk(rt, rt, t.TempDir(), 5, func(int32) { alarmAt = time.Since(begin) })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		err = kiosk.Run(ctx, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "browser", Namespace: "default", UID: "browser-1"},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "browser", Image: "browser:1"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := rt.Facts("browser-1", "browser").Started; n != 7 {
			t.Errorf("%d starts in ten minutes, want 7: the first one and six restarts", n)
		}
		// 0+10+20+40+80 s of back-off and five runs of 2 s.
		if alarmAt < 160*time.Second || alarmAt > 170*time.Second {
			t.Errorf("alarm after %v, want about 160 s", alarmAt)
		}
	})
}
