package status

import "context"

// ChannelSink hands updates to a Go channel.
//
// It never drops an update: while the channel is full, Store waits for room. That holds up only
// this sink; versions of a pod that pile up meanwhile collapse into the newest. A send that waits
// longer than Options.SendTimeout fails and is repeated, so a reader that stops reading delays only
// its own updates, and gets the newest status of each pod when it reads again.
type ChannelSink struct {
	updates chan Update
}

// NewChannelSink returns a sink whose channel buffers this many updates; with 0, each update waits
// for a reader.
func NewChannelSink(buffer int) *ChannelSink {
	return &ChannelSink{updates: make(chan Update, max(buffer, 0))}
}

// Updates returns the channel. It may have several readers; each update goes to one of them, and
// updates of one pod arrive in the order of their versions. The channel is never closed.
func (s *ChannelSink) Updates() <-chan Update { return s.updates }

// Store puts u into the channel.
func (s *ChannelSink) Store(ctx context.Context, u Update) (StoreResult, error) {
	select {
	case s.updates <- u:
		return Stored, nil
	default:
	}
	select {
	case s.updates <- u:
		return Stored, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Name returns "channel"; the manager tells several such sinks apart (Options.Sinks).
func (s *ChannelSink) Name() string { return "channel" }
