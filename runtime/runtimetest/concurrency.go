package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/cri"
)

func concurrencyCases() []namedCase {
	return []namedCase{
		{"containers come and go side by side", concurrentContainers},
		{"one name is created once", concurrentDuplicate},
		{"stops and removals of one container meet", concurrentRemoval},
		{"lists stay whole while things change", concurrentLists},
	}
}

// together runs n calls at the same time and reports every error.
func (e *env) together(n int, call func(i int) error) {
	e.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = call(i) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			e.Errorf("call %d: %v", i, err)
		}
	}
}

// configs builds n container configs, for goroutines that must not fail the
// test themselves.
func (e *env) configs(s *sandbox, n int, p Program) []*runtimeapi.ContainerConfig {
	configs := make([]*runtimeapi.ContainerConfig, n)
	for i := range configs {
		configs[i] = e.containerConfig(s, p)
	}
	return configs
}

func concurrentContainers(e *env) {
	s := e.sandbox()
	configs := e.configs(s, 6, Program{Run: Forever})
	e.together(len(configs), func(i int) error {
		id, err := e.Runtime.CreateContainer(e.ctx, s.id, configs[i], s.config)
		if err != nil {
			return err
		}
		if err := e.Runtime.StartContainer(e.ctx, id); err != nil {
			return err
		}
		st, err := e.Runtime.ContainerStatus(e.ctx, id, false)
		if err != nil {
			return err
		}
		if got := st.GetStatus().GetState(); got != runtimeapi.ContainerState_CONTAINER_RUNNING {
			return fmt.Errorf("state %v after start", got)
		}
		return errors.Join(e.Runtime.StopContainer(e.ctx, id, longGrace), e.Runtime.RemoveContainer(e.ctx, id))
	})
	e.wantIDs("in the end", e.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: s.id}), nil)
}

// duplicatePatience is how long creations of a name that is taken may go unanswered, once
// there is a container.
const duplicatePatience = 10 * time.Second

// concurrentDuplicate: several creations of one name make exactly one container, whether
// the others are refused, answered with it, or not answered at all.
func concurrentDuplicate(e *env) {
	s := e.sandbox()
	config := e.containerConfig(s, Program{})
	var mu sync.Mutex
	var ids []string
	ctx, giveUp := context.WithCancel(e.ctx)
	defer giveUp()
	made := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-made:
			_ = timing.Sleep(ctx, e.Clock, duplicatePatience) // ends early once all have answered
			giveUp()
		case <-ctx.Done():
		}
	})
	e.together(4, func(int) error {
		id, err := e.Runtime.CreateContainer(ctx, s.id, config, s.config)
		if err != nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if ids = append(ids, id); len(ids) == 1 {
			close(made)
		}
		return nil
	})
	giveUp()
	waiting.Wait()
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) != 1 {
		e.Errorf("the creations of one name made %d containers, want 1", len(ids))
	}
	e.wantIDs("in the end", e.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: s.id}), ids)
}

// concurrentRemoval: late callers find the work done.
func concurrentRemoval(e *env) {
	s := e.sandbox()
	id := e.startReady(s, Program{Run: Forever})
	e.together(6, func(i int) error {
		err := e.Runtime.StopContainer(e.ctx, id, longGrace)
		if err != nil && !cri.IsNotFound(err) {
			return err
		}
		return nil
	})
	e.must(e.Runtime.RemoveContainer(e.ctx, id))
	_, err := e.Runtime.ContainerStatus(e.ctx, id, false)
	e.wantNotFound("in the end", err)
}

// concurrentLists: a list never fails, shows nothing twice and never misses what existed
// all the time.
func concurrentLists(e *env) {
	s := e.sandbox()
	stays := e.start(s, Program{Run: Forever})
	configs := e.configs(s, 4, Program{Run: Forever})
	e.together(2*len(configs), func(i int) error {
		if i < len(configs) {
			id, err := e.Runtime.CreateContainer(e.ctx, s.id, configs[i], s.config)
			if err != nil {
				return err
			}
			return errors.Join(e.Runtime.StartContainer(e.ctx, id), e.Runtime.RemoveContainer(e.ctx, id))
		}
		for range 10 {
			list, err := e.Runtime.ListContainers(e.ctx, &runtimeapi.ContainerFilter{PodSandboxId: s.id})
			if err != nil {
				return err
			}
			seen := map[string]int{}
			for _, c := range list {
				seen[c.GetId()]++
				if seen[c.GetId()] > 1 {
					return fmt.Errorf("container %s is listed twice", c.GetId())
				}
			}
			if seen[stays] != 1 {
				return fmt.Errorf("a running container is missing in the list")
			}
		}
		return nil
	})
}
