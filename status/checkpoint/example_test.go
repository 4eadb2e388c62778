package checkpoint_test

import (
	"fmt"

	"github.com/podwright/podwright/status/checkpoint"
)

// A record is changed by changing a clone.
func ExampleRecord_Clone() {
	old := &checkpoint.Record{UID: "uid-1", Name: "web"}
	next := old.Clone()
	next.SetContainer(checkpoint.Container{Name: "main", ID: "fake://1", Ready: true})

	main, ok := next.Container("main")
	fmt.Println(main.ID, main.Ready, ok)
	_, ok = old.Container("main")
	fmt.Println(ok)
	// Output:
	// fake://1 true true
	// false
}
