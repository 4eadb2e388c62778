package goroutinetest_test

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/goroutinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnlyLiveGoroutinesOfThePackageCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const here = "internal/goroutinetest_test"
		before := goroutinetest.Count(here)
		release := make(chan struct{})
		for range 100 {
			go func() { <-release }()
		}
		synctest.Wait()
		if n := goroutinetest.Count(here); n != before+100 {
			t.Errorf("%d goroutines, want %d", n, before+100)
		}
		if n := goroutinetest.Count("podwright/elsewhere"); n != 0 {
			t.Errorf("%d goroutines of another package", n)
		}
		close(release)
		synctest.Wait()
		if n := goroutinetest.Count(here); n != before {
			t.Errorf("%d goroutines are left, want %d", n, before)
		}
	})
}
