package eviction_test

import (
	"fmt"

	"github.com/podwright/podwright/cleanup/eviction"
)

// Limits are written as a kubelet takes them.
func ExampleText_Parse() {
	thresholds, err := eviction.Text{
		Hard: "memory.available<10%", Soft: "nodefs.available<5Gi", SoftGrace: "nodefs.available=1m30s",
	}.Parse()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range thresholds {
		fmt.Println(t.Signal, "hard:", t.Hard(), "grace:", t.Grace)
	}
	// Output:
	// memory.available hard: true grace: 0s
	// nodefs.available hard: false grace: 1m30s
}
