package enginetest_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var (
	crowdSeed = flag.Uint64("crowd.seed", 0, "what TestCrowd draws from; 0: anything")
	crowdKind = flag.String("crowd.kind", "", "the kinds of bad pods in TestCrowd, separated by commas, or mixed for all in one; \"\": each alone, and all mixed")
	crowdN    = flag.Int("crowd.n", 0, "how many pods there are in a cell of TestCrowd; 0: 10, 100 and 1000")
	crowdK    = flag.Int("crowd.k", 0, "how many of them are bad; 0: 1, half, and all but one")
	crowdAll  = flag.Bool("crowd.all", false, "run the whole matrix of TestCrowd, as the other flags do for their part")
)

// mixed stands for all kinds of bad pods together.
const mixed = "mixed"

// crowdCell is one cell of the matrix: n pods of which k are bad. Each bad pod has one of the
// kinds, which are separated by commas.
type crowdCell struct {
	seed  uint64
	kinds string
	n, k  int
}

func (c crowdCell) flags() string {
	return fmt.Sprintf("-crowd.seed=%d -crowd.kind=%q -crowd.n=%d -crowd.k=%d", c.seed, c.kinds, c.n, c.k)
}

// String names the cell.
func (c crowdCell) String() string {
	return fmt.Sprintf("%s/%d of %d", c.kinds, c.k, c.n)
}

// ailments are the kinds that the bad pods of the cell have.
func (c crowdCell) ailments() []ailment {
	return slices.DeleteFunc(ailments(), func(a ailment) bool {
		return c.kinds != mixed && !slices.Contains(strings.Split(c.kinds, ","), a.name)
	})
}

// crowdCells returns the cells that the flags ask for: the matrix, or a part in which each kind
// occurs once, in a small crowd.
func crowdCells() []crowdCell {
	seed := cmp.Or(*crowdSeed, rand.Uint64N(1<<32)+1)
	kinds, cells := []string{}, []crowdCell{}
	for _, a := range ailments() {
		kinds = append(kinds, a.name)
	}
	if !*crowdAll && *crowdKind == "" && *crowdN == 0 && *crowdK == 0 {
		for some := range slices.Chunk(kinds, 5) {
			cells = append(cells, crowdCell{seed, strings.Join(some, ","), 10, len(some)})
		}
		return cells
	}
	kinds = append(kinds, mixed)
	if *crowdKind != "" {
		kinds = []string{*crowdKind}
	}
	sizes := []int{10, 100, 1000}
	if *crowdN != 0 {
		sizes = []int{*crowdN}
	}
	for _, n := range sizes {
		bad := []int{1, n / 2, n - 1}
		if *crowdK != 0 {
			bad = []int{*crowdK}
		}
		for _, kind := range kinds {
			for _, k := range bad {
				cells = append(cells, crowdCell{seed, kind, n, k})
			}
		}
	}
	return cells
}

// TestCrowd: IN2. Of n pods, k are bad, in every possible way. Each good pod lives as it does
// without them: it runs at most 5 s later, is signalled within 1 s of its removal, restarts at its
// own back-off, has a true status and true probes, and leaves nothing. Explain says what each bad
// pod waits for.
func TestCrowd(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "kind\tn\tk\tresult\tseconds")
	without := map[crowdCell]map[types.UID]crowdLife{}
	for _, c := range crowdCells() {
		if len(c.ailments()) == 0 {
			t.Fatalf("-crowd.kind: there is no kind %q of bad pods", c.kinds)
		}
		alone := crowdCell{seed: c.seed, n: c.n, k: c.k}
		began := time.Now()
		passed := t.Run(c.String(), func(t *testing.T) {
			if without[alone] == nil {
				synctest.Test(t, func(t *testing.T) { without[alone] = newCrowd(t, c, false).run() })
				began = time.Now()
			}
			synctest.Test(t, func(t *testing.T) {
				crowd := newCrowd(t, c, true)
				crowd.compare(crowd.run(), without[alone])
			})
			if t.Failed() {
				t.Logf("again with %s", c.flags())
			}
		})
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%.1f\n", c.kinds, c.n, c.k, map[bool]string{true: "ok", false: "FAILED"}[passed], time.Since(began).Seconds())
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d\n%s", crowdCells()[0].seed, table.String())
}
