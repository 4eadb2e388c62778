package pleg

import "context"

type streamState struct{}

func (*streamState) healthy() bool { return false }

func (g *Generator) watch(ctx context.Context) {}
