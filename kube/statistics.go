package kube

import (
	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/server"
	"github.com/podwright/podwright/kube/stats"
)

// completeStats sets empty options from the engine's configuration.
func (a *Agent) completeStats(c *podwright.Config) {
	o := &a.options.Server.Stats
	if o.Node == "" {
		o.Node = c.Node.Name
	}
	if o.Runtime == nil {
		o.Runtime = c.Runtime
	}
	if o.Images == nil {
		o.Images, _ = c.Images.(stats.ImageFs)
	}
	if o.RootDir == "" {
		o.RootDir = c.RootDir
	}
	if o.Clock == nil && c.Clock != nil {
		o.Clock = c.Clock
	}
	if o.Logger.GetSink() == nil {
		o.Logger = c.Observe.Logger.WithName("stats")
	}
}

// makeStats makes the source that measures the node and its pods, nil if the pages are disabled.
func (a *Agent) makeStats(engine Engine) (server.Stats, error) {
	if a.options.Server.NoStats {
		return nil, nil
	}
	o := a.options.Server.Stats
	o.Engine = engine
	return stats.New(o)
}
