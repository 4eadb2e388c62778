package tree

import (
	"context"
	"errors"
	"fmt"
)

// slice is how many entries are handled between two checks of the context.
const slice = 256

// maxProblems bounds the errors kept of one removal: a tree that stays may have millions of
// entries.
const maxProblems = 10

// errStays says that something in a folder could not be removed; the reason is among the problems.
var errStays = errors.New("not all of it can be removed")

// pace cuts the work on a tree into slices (IN12), and keeps what fails.
type pace struct {
	ctx      context.Context
	entries  int
	cut      error // why the work ended
	problems []error
	more     int // how many problems are not kept
}

// next counts an entry, and returns why the work ends before it.
func (p *pace) next() error {
	if p.entries%slice == 0 && p.cut == nil {
		p.cut = p.ctx.Err()
	}
	p.entries++
	return p.cut
}

// note keeps a problem, unless there are many and one of the same kind is already kept.
func (p *pace) note(err error) {
	if errors.Is(err, errStays) || p.cut != nil && errors.Is(err, p.cut) {
		return // already noted
	}
	kept := errors.Join(p.problems...)
	for _, kind := range []error{ErrMounted, ErrLeftover} {
		if errors.Is(err, kind) && !errors.Is(kept, kind) {
			p.problems = append(p.problems, err)
			return
		}
	}
	if len(p.problems) >= maxProblems {
		p.more++
		return
	}
	p.problems = append(p.problems, err)
}

// result returns the result of a removal that returned err.
func (p *pace) result(err error) error {
	if err == nil {
		return nil
	}
	p.note(err)
	all := append(p.problems, p.cut)
	if p.more > 0 {
		all = append(all, fmt.Errorf("and %d more entries", p.more))
	}
	return errors.Join(all...)
}
