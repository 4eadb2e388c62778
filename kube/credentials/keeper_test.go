package credentials

import (
	"context"
	"fmt"
	"testing"
	"time"

	kubeletv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/podwright/podwright/kube/internal/elapsed/elapsedtest"
)

// KG5: an answer is over after its cacheDuration, also if the machine was suspended meanwhile; then it takes no place
// from others.
func TestAnswerIsOverWhileSuspended(t *testing.T) {
	c := &elapsedtest.Clock{}
	k, runs := newKeeper(c), 0
	get := func(image string) {
		t.Helper()
		_, err := k.get(t.Context(), topic{provider: "ecr", repository: image}, inquiry{turns: make(chan struct{}, 1), ask: func(context.Context) (answer, error) {
			runs++
			return answer{scope: kubeletv1.ImagePluginCacheKeyType, life: 6 * time.Hour}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		slept time.Duration
		runs  int
	}{{0, 1}, {5 * time.Hour, 1}, {14 * time.Hour, 2}, {15 * time.Hour, 2}} {
		c.Slept = tc.slept
		if get("r.example/x"); runs != tc.runs {
			t.Errorf("KG5: after %v %d runs, want %d", tc.slept, runs, tc.runs)
		}
	}
	for i := range 9 {
		get(fmt.Sprint("r.example/", i))
	}
	c.Slept = 30 * time.Hour
	if get("r.example/x"); len(k.answers) != 1 {
		t.Errorf("KG5: %d answers are kept, all but one are over", len(k.answers))
	}
}
