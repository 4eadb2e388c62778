package checkpoint_test

import (
	"crypto/sha256"
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

// A key seals the records of an engine: Config.Checkpoints.Keys.
func ExampleNewKey() {
	secret := sha256.Sum256([]byte("in practice: 32 random bytes from a file of mode 0600"))
	key, err := checkpoint.NewKey(secret[:])
	if err != nil {
		fmt.Println(err)
		return
	}
	options := checkpoint.Options{Store: checkpoint.NewFiles(checkpoint.Dir("state")), Keys: []checkpoint.Key{key}}
	fmt.Println(options.CheckKeys(), key)
	// Output: <nil> 0d399b2352022f34
}
