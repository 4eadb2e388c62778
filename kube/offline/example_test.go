package offline_test

import (
	"context"
	"fmt"
	"os"

	"github.com/podwright/podwright/kube/offline"
)

// A cache keeps what the API server said over a restart of the agent, and of the machine.
func Example() {
	dir, err := os.MkdirTemp("", "offline")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	key, err := offline.NewKey([]byte("0123456789abcdef0123456789abcdef")) // openssl rand 32
	if err != nil {
		fmt.Println(err)
		return
	}
	o := offline.Options{Dir: dir, Keys: []offline.Key{key}}
	settings := offline.Entry{Kind: "ConfigMap", Namespace: "default", Name: "settings"}

	cache, err := offline.Open(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- cache.Run(ctx) }()
	cache.Put(settings, map[string]string{"colour": "blue"})
	cancel()
	fmt.Println("ended:", <-done) // what was put is on disk

	again, err := offline.Open(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	var kept map[string]string
	fmt.Println(again.Get(settings, &kept), kept)
	// Output:
	// ended: <nil>
	// true map[colour:blue]
}
