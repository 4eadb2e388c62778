package kube

import (
	"context"
	"sync"
	"time"
)

// servicesPatience is how long the pods of the API server wait for its services, which are in the
// environment of their containers.
const servicesPatience = 5 * time.Second

// podsGate controls when the pods of the API server are read.
type podsGate struct {
	// services is closed once the services are known, open once the pods may be read.
	services, open chan struct{}
	noteServices   func()
}

func newPodsGate() podsGate {
	services := make(chan struct{})
	return podsGate{services: services, open: make(chan struct{}), noteServices: sync.OnceFunc(func() { close(services) })}
}

// letPodsCome lets the pods of the API server be read once the Node exists (KS2). A container that
// starts without services would fail, so these are read first, if they come soon (KO10).
func (a *Agent) letPodsCome(ctx context.Context) error {
	select {
	case <-a.registrar.Registered():
		(*a.engine.Load()).NodeKnown() // its mirror pods have waited for it
	case <-ctx.Done():
		return nil
	}
	timer := a.clock.NewTimer(servicesPatience)
	defer timer.Stop()
	select {
	case <-a.pods.services:
	case <-timer.C():
	case <-ctx.Done():
		return nil
	}
	close(a.pods.open)
	return nil
}
