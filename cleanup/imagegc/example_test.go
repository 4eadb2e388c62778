package imagegc_test

import (
	"fmt"
	"time"

	"github.com/podwright/podwright/cleanup/imagegc"
)

// Why every image goes or stays.
func ExampleDecide() {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	morning := now.Add(-4 * time.Hour)
	plan := imagegc.Decide(imagegc.Input{
		Policy: imagegc.Policy{HighPercent: 85, LowPercent: 84},
		Disk:   &imagegc.Disk{Capacity: 100 << 30, Available: 15 << 30},
		Images: []imagegc.Image{
			{Key: "web", Size: 1 << 30, FirstSeen: morning, LastUsed: now, UsedBy: "container 1f3a"},
			{Key: "old", Size: 1 << 30, FirstSeen: morning, LastUsed: morning},
			{Key: "spare", Size: 1 << 30, FirstSeen: morning, LastUsed: now.Add(-time.Hour)},
			{Key: "pause", Size: 1 << 20, FirstSeen: morning, Pinned: true},
		},
		Now: now, Started: morning,
	})
	for _, c := range plan.Choices {
		why := c.Kept.String()
		if c.Remove {
			why = c.Reason
		}
		fmt.Printf("%-5s remove %-5v %s\n", c.Image.Key, c.Remove, why)
	}
	// Output:
	// old   remove true  unused, and the disk is full
	// spare remove false IG5: unused; enough is freed without it
	// pause remove false ND5: pinned
	// web   remove false ND5: in use: container 1f3a
}
