package checkpoint_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/status/checkpoint"
)

// TestEveryChangeIsWrittenInItsTime: among many records, a durable change is on the disk at once, and
// a lazy one after lazyDelay, whatever else changes meanwhile (status.md 9.2).
func TestEveryChangeIsWrittenInItsTime(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { changeAtRandom(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func changeAtRandom(t *testing.T, random *rand.Rand) {
	b := newBench(t, &checkpointtest.Disk{})
	type change struct {
		version uint64
		by      time.Time // when it has to be on the disk
	}
	unwritten := map[types.UID][]change{}
	latest := map[types.UID]uint64{}
	for range 2000 {
		uid := types.UID(fmt.Sprint("pod-", random.IntN(30)))
		class, by := checkpoint.Lazy, time.Now().Add(time.Second)
		if random.IntN(5) == 0 {
			class, by = checkpoint.Durable, time.Now()
		}
		latest[uid]++
		b.note(uid, class, latest[uid])
		unwritten[uid] = append(unwritten[uid], change{latest[uid], by})
		<-time.After(time.Duration(random.IntN(200)) * time.Millisecond)
		synctest.Wait()
		for uid, changes := range unwritten {
			stored := uint64(0)
			if r := b.keeper.Stored(uid); r != nil {
				stored = r.Version
			}
			for len(changes) > 0 && changes[0].version <= stored {
				changes = changes[1:]
			}
			unwritten[uid] = changes
			if len(changes) > 0 && !changes[0].by.After(time.Now()) {
				t.Fatalf("version %d of %s is not written %v after its time", changes[0].version, uid, time.Since(changes[0].by))
			}
		}
	}
}
