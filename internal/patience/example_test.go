package patience_test

import (
	"fmt"
	"time"

	"github.com/podwright/podwright/internal/patience"
)

// A pod that takes a second on an idle machine is not lost before patience ends.
func ExampleOf() {
	took := time.Second
	fmt.Println("lost:", took > patience.Of(5*time.Second))
	// Output: lost: false
}
