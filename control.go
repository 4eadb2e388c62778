package podwright

import (
	"context"
	"errors"
	"fmt"

	"github.com/podwright/podwright/syncloop"
)

// AddSource adds a source to the engine, before or while it runs (spec/syncloop.md
// R4). Until the source has been heard nothing is removed. ctx bounds the call, not
// the source. The error says what is wrong with the source, or that the engine has
// ended.
func (e *Engine) AddSource(ctx context.Context, s syncloop.Source) error {
	if s == nil {
		return errors.New("podwright: source is nil")
	}
	if err := e.loop.AddSource(ctx, e.remembering(s)); err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	return nil
}

// NodeKnown tells the engine that the Node of [Config.Mirrors] has an answer now: the mirror pods
// that wait for it are made at once (MC6). Without it that takes up to 100 ms.
func (e *Engine) NodeKnown() { e.mirrors.NodeKnown() }
