// Command minimal is the smallest agent: it runs the pods of a folder of manifests as plain
// processes. They outlive it; when it runs again, it finds them.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/process"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

func main() {
	supervisor, done := process.Shim() // keeps exit codes while no agent runs
	if done {
		return
	}
	home, err := os.UserHomeDir()
	check(err)
	root := filepath.Join(home, ".local", "state", "minimal") // a folder that other users cannot change
	rt, err := process.New(process.Options{Root: filepath.Join(root, "runtime"), Supervisor: supervisor})
	check(err)
	manifests, err := source.NewFile("manifests", "edge-1", source.FileOptions{})
	check(err)
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{manifests}, RootDir: filepath.Join(root, "pods"), Node: podwright.Node{Name: "edge-1"},
	})
	check(err)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	check(engine.Run(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
