package pleg

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime"
)

// TestModelOfMadeObjectsStay: R7, B14. What a syncer has made and the runtime has is in every status that is as new as
// that, whatever lists leave out and whichever single call fails. Without it, a syncer makes it a second time.
func TestModelOfMadeObjectsStay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { runModelOfMadeObjectsStay(t, rt) })
}

func runModelOfMadeObjectsStay(t *testing.T, rt *rapid.T) {
	clock := jumping{ahead: new(time.Duration)}
	b := newBench(t, unhurried(Options{Clock: clock}))
	const uid = types.UID("p")
	if rapid.Bool().Draw(rt, "an earlier life") {
		b.sandbox(uid, 9, sNotReady, "")
		b.container(uid, "old", sExited)
		b.relist()
	}
	made := map[string]runtime.Stamp{}
	number, holds, failed := 0, 0, false
	fault := func() { // no two without a good reading in between: what fails again and again counts as gone at some time
		if failed || rapid.IntRange(0, 2).Draw(rt, "fails") > 0 {
			return
		}
		failed = true
		method := rapid.SampledFrom([]string{"ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus"}).Draw(rt, "method")
		prefix := ""
		if strings.HasSuffix(method, "Status") {
			prefix = string(uid)
		}
		b.fail(failing(method, prefix, runtime.ErrUnavailable))
	}
	rt.Repeat(map[string]func(*rapid.T){
		"": func(rt *rapid.T) {
			status, err := b.Get(uid)
			if err != nil {
				return
			}
			for id, since := range made {
				if b.isFresh(uid, since) && !statusHas(status, id) {
					rt.Fatalf("%s was made and is missing: %q", id, statesOf(status))
				}
			}
		},
		"make": func(rt *rapid.T) {
			number++
			name, sandbox := fmt.Sprint("c", number), ""
			if len(made) == 0 {
				name = fmt.Sprint("s", number)
				b.sandbox(uid, number, sReady, "10.0.0.1")
			} else {
				sandbox = fmt.Sprint(uid, "/s1")
				b.container(uid, name, rapid.SampledFrom([]runtimeapi.ContainerState{sCreated, sRunning, sExited}).Draw(rt, "state"))
			}
			b.Made(uid, string(uid)+"/"+name, sandbox)
			made[string(uid)+"/"+name] = b.Stamp()
		},
		"hide": func(rt *rapid.T) {
			digits := rapid.SampledFrom([]string{"", "1", "12", "13", "23", "123456789d"}).Draw(rt, "hidden")
			b.hiding(func(id string) bool { return strings.ContainsAny(id[len(id)-1:], digits) })
		},
		"relist":  func(*rapid.T) { fault(); _ = b.Relist(t.Context()); b.fail(nil) },
		"calm":    func(*rapid.T) { b.relist(); failed = failed && holds > 0 },
		"read":    func(*rapid.T) { fault(); _, _ = b.ReadNow(t.Context(), uid); b.fail(nil) },
		"objects": func(*rapid.T) { fault(); _, _ = b.ReadObjects(t.Context(), uid); b.fail(nil) },
		"refresh": func(*rapid.T) { b.Refresh(uid) },
		"hold":    func(*rapid.T) { b.Hold(uid); holds++ },
		"release": func(*rapid.T) {
			if holds > 0 {
				b.Release(uid)
				holds--
			}
		},
	})
	for range holds {
		b.Release(uid)
	}
}
