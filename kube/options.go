package kube

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/kube/node"
)

// Policy says what follows when the Node was deleted (KN7).
type Policy string

const (
	// Rejoin registers the Node again, and no container restarts. It is the default.
	Rejoin Policy = ""
	// Drain stops all pods; then Run ends with [ErrNodeGone].
	Drain Policy = "Drain"
	// Exit ends Run with [ErrNodeGone] at once. The pods go on.
	Exit Policy = "Exit"
)

// ErrNodeGone, wrapped in the error of Run: the Node was deleted, and the policy is not to
// rejoin.
var ErrNodeGone = errors.New("the Node was deleted")

// Options configures [New]. Config is required.
type Options struct {
	// Config is how to reach the API server, and the credentials: with the admission plugin
	// NodeRestriction those of system:node:NAME. It is copied.
	Config *rest.Config
	// Node says what the Node shows. Its Name is that of the engine's configuration; Client,
	// Leases, Reconnect, Skew, WhenGone, Clock, Logger, Events and Meter are set by [New].
	Node node.Options
	// WhenGone says what follows when the Node was deleted.
	WhenGone Policy
	// ObjectTTL reads config maps and secrets when they are asked for and at least this long
	// after they were last read, rather than watching them. 0: they are watched.
	ObjectTTL time.Duration
	// Local leaves out the mirror pods that show static pods at the API server.
	Local bool
}

func (o *Options) complete() error {
	var problems []error
	if o.Config == nil {
		problems = append(problems, errors.New("no Config: how to reach the API server is required"))
	}
	switch o.WhenGone {
	case Rejoin, Drain, Exit:
	default:
		problems = append(problems, fmt.Errorf("the policy WhenGone %q is neither Rejoin (empty), %s nor %s", o.WhenGone, Drain, Exit))
	}
	n := o.Node
	for name, set := range map[string]bool{
		"Client": n.Client != nil, "Leases": n.Leases != nil, "Reconnect": n.Reconnect != nil, "Skew": n.Skew != nil,
		"WhenGone": n.WhenGone != node.Rejoin, "Clock": n.Clock != nil, "Events": n.Events != nil, "Meter": n.Meter != nil,
	} {
		if set {
			problems = append(problems, fmt.Errorf("the field Node.%s is set by this package", name))
		}
	}
	return errors.Join(problems...)
}
