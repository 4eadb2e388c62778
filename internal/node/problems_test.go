package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/problem"
)

// TestProblemsAreLoggedTwice: IN2. A problem has one line when it is 5 s old and one when it is
// over, however often it is seen; a hundred at once have 20 lines and one that counts the rest.
func TestProblemsAreLoggedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		var now []problem.Problem
		set := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now = nil
			for i := range n {
				uid := types.UID(fmt.Sprint("u", i))
				now = append(now, problem.Problem{Kind: problem.Pod, Name: string(uid), UID: uid, Since: time.Now(), Waits: "a disk", Advice: "look"})
			}
		}
		p := &Problems{
			Clock: clock.RealClock{},
			Logger: funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, args)
			}, funcr.Options{}),
			Parts: []func() []problem.Problem{func() []problem.Problem {
				mu.Lock()
				defer mu.Unlock()
				return now
			}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { _ = p.Run(ctx) })
		count := func(text string) (n int) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for _, line := range lines {
				if strings.Contains(line, text) {
					n++
				}
			}
			return n
		}
		<-time.After(4 * time.Second)
		set(1)
		<-time.After(2 * time.Second)
		if n := count("appeared"); n != 0 {
			t.Errorf("%d lines about a problem of 1 s", n)
		}
		<-time.After(time.Hour)
		if n := count("A problem appeared"); n != 1 {
			t.Errorf("%d lines in an hour", n)
		}
		if n := count("waits for a disk; look"); n != 1 {
			t.Errorf("%d lines say what it waits for", n)
		}
		set(0)
		<-time.After(time.Hour)
		if n := count("A problem is over"); n != 1 {
			t.Errorf("%d lines about its end", n)
		}
		set(100)
		<-time.After(time.Hour)
		if n := count("A problem appeared"); n != 1+20 {
			t.Errorf("%d lines about a hundred problems", n-1)
		}
		if n := count(`"more"=80`); n != 1 {
			t.Errorf("%d lines count the rest", n)
		}
	})
}
