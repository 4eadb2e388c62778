package pullrecords

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/podwright/podwright/internal/registrykey"
	"github.com/podwright/podwright/runtime/pods/internal/credentials"
)

// Ledger keeps the records while images come and go. It is safe for concurrent
// use; a writer waits for its turn, readers do not.
type Ledger struct {
	policy Policy
	store  Store
	logger logr.Logger

	// turn is held while writing, and guards what follows. It is a channel, so that
	// a context can end the wait for a slow disk.
	turn    chan struct{}
	pulling map[string]int
	// left are the images being pulled whose intent existed before.
	left map[string]bool
	// written are the records saved since the last [Ledger.Prune] began, absent
	// those whose image it did not find.
	written, absent map[string]bool
	// missing are the images of intents that it did not find.
	missing map[string]bool
	// unread is what was last logged about intents that cannot be read, empty if all can.
	unread string
	// due is true if something was noted since then.
	due bool
}

// New returns a ledger over a store.
func New(policy Policy, store Store, logger logr.Logger) *Ledger {
	return &Ledger{
		policy: policy, store: store, logger: logger,
		turn: make(chan struct{}, 1), pulling: map[string]int{}, left: map[string]bool{},
		written: map[string]bool{}, absent: map[string]bool{}, missing: map[string]bool{}, due: true,
	}
}

// take waits for the turn; done gives it back.
func (l *Ledger) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Ledger) done() { <-l.turn }

// Pull is a pull that has begun.
type Pull struct {
	ledger            *Ledger
	image, repository string
	guarded           bool
}

// Begin notes that an image is about to be pulled with some of the credentials;
// every Begin that succeeds is followed by one [Pull.End]. A pull that all pods of the
// node could make needs no note: even if its outcome stays unknown, the image is not
// private.
func (l *Ledger) Begin(ctx context.Context, image, repository string, with []credentials.Credential) (*Pull, error) {
	p := &Pull{l, image, repository, slices.ContainsFunc(with, func(c credentials.Credential) bool { return c.Secret != nil })}
	if !p.guarded {
		return p, nil
	}
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.done()
	if l.pulling[image] == 0 {
		left, err := l.store.AddIntent(image)
		if err != nil {
			return nil, fmt.Errorf("note the pull of image %q: %w", image, err)
		}
		l.left[image] = left
	}
	l.pulling[image]++
	l.due = true
	delete(l.missing, image)
	return p, nil
}

// Outcome is how a pull ended.
type Outcome struct {
	// ID of the image, empty if it was not pulled.
	ID string
	// Unknown is true if the outcome is not known.
	Unknown bool
	// By is the credential it was pulled with, nil for none.
	By *credentials.Credential
}

// End notes how the pull ended. After an unknown outcome with a pod's credential the
// intent stays, like an intent that a crash left, until the image is pulled or
// [Ledger.Prune] looks for it. If the image is present, no pod may use it without
// showing credentials to the registry.
func (p *Pull) End(o Outcome) {
	l := p.ledger
	if !p.guarded && o.ID == "" {
		return
	}
	l.turn <- struct{}{}
	defer l.done()
	keep := l.left[p.image] || (o.Unknown && o.By != nil && o.By.Secret != nil)
	if o.ID != "" {
		err := l.add(o.ID, p.repository, o.By)
		if err != nil {
			l.logger.Error(err, "No record of a pull, the image will be pulled again", "image", p.image)
		}
		keep = err != nil
	}
	if p.guarded {
		l.endIntent(p.image, keep)
	}
}

// endIntent counts a pull down; the last one removes its intent or leaves it. The
// turn must be held.
func (l *Ledger) endIntent(image string, keep bool) {
	l.left[image], l.due = keep, true
	if l.pulling[image]--; l.pulling[image] > 0 {
		return
	}
	delete(l.pulling, image)
	delete(l.left, image)
	if keep {
		return
	}
	if err := l.store.RemoveIntent(image); err != nil {
		l.logger.Error(err, "The note of a pull stays, the image may be pulled again", "image", image)
	}
}

// add adds a use to the image's record. A record that cannot be read is replaced, one that says so already is not
// written again: a crowd of pods that always pull would wait for the disk, one after the other. The turn must be held.
func (l *Ledger) add(id, repository string, by *credentials.Credential) error {
	r, err := l.store.Load(id)
	if err != nil {
		r = &Record{Image: id}
	}
	if err != nil || !r.Repositories[repository].NodeWide {
		if err := l.store.Save(r.With(repository, by)); err != nil {
			return err
		}
	}
	l.written[id] = true
	l.due = true
	return nil
}

// MayUse reports whether a pod may use an image that is in the store, without
// pulling it. have returns the pod's credentials for the image; it is called only
// if they matter. Its error means that they are not known. identify returns the ID of the image of
// another name, empty if there is none; it is called without a lock.
func (l *Ledger) MayUse(
	ctx context.Context, image, repository, id string,
	have func() ([]credentials.Credential, error), identify func(ctx context.Context, image string) (string, error),
) (bool, error) {
	if l.policy.Verify == Nothing {
		return true, nil
	}
	r, err := l.store.Load(id)
	begun := false
	if errors.Is(err, fs.ErrNotExist) {
		var unknown error
		if begun, unknown = l.begun(ctx, image, id, identify); unknown != nil {
			return false, unknown
		}
		if !begun {
			// A pull may have ended since: it saves the record before its intent goes.
			r, err = l.store.Load(id)
		}
	}
	pulled := begun || !errors.Is(err, fs.ErrNotExist)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.logger.Error(err, "The record of a pull cannot be read, the image will be pulled again", "image", image)
	}
	switch {
	case !l.policy.applies(repository, pulled):
		return true, nil
	case r == nil:
		return false, nil
	case !r.NeedsCredentials(repository):
		ok, _ := r.Allows(repository, nil)
		return ok, nil
	}
	mine, err := have()
	if err != nil {
		return false, err
	}
	ok, by := r.Allows(repository, mine)
	if ok && by.Auth != nil && !r.has(repository, *by) {
		l.renew(ctx, id, repository, by)
	}
	return ok, nil
}

// renew notes that a secret has changed, or that another holds the same.
func (l *Ledger) renew(ctx context.Context, id, repository string, by *credentials.Credential) {
	if l.take(ctx) != nil {
		return // a later start records it
	}
	defer l.done()
	if err := l.add(id, repository, by); err != nil {
		l.logger.Error(err, "A record of a pull is out of date, the image may be pulled again", "image", id)
	}
}

// begun reports whether a pull of the image, by whichever of its names, has begun and its end is not known. It has if an
// intent cannot be read, which may be about any image.
func (l *Ledger) begun(ctx context.Context, image, id string, identify func(ctx context.Context, image string) (string, error)) (bool, error) {
	intents, unread, err := l.intents(ctx)
	if err != nil {
		return false, err
	}
	if unread || slices.ContainsFunc(intents, func(i string) bool { return i == image || sameTag(i, image) }) {
		return true, nil
	}
	for _, i := range intents {
		if !maybeSame(i, image) {
			continue
		}
		if other, err := identify(ctx, i); err != nil || other == id {
			return true, nil
		}
	}
	return false, nil
}

// intents returns the images whose pull has begun and whose end is not known. If unread, there may be others.
func (l *Ledger) intents(ctx context.Context) (images []string, unread bool, err error) {
	if err := l.take(ctx); err != nil {
		return nil, false, err
	}
	images, err = l.store.Intents() // those of the pulls in progress, too
	text := ""
	if err != nil {
		text = err.Error()
	}
	news := text != l.unread
	l.unread = text
	l.done()
	if err != nil && news {
		l.logger.Error(err, "The note of a pull cannot be read, images without a record will be pulled again")
	}
	return images, err != nil, nil
}

// sameTag reports whether two references are spellings of one tag.
func sameTag(a, b string) bool {
	return !strings.Contains(a, "@") && !strings.Contains(b, "@") && tag(a) == tag(b) && registrykey.Repository(a) == registrykey.Repository(b)
}

// maybeSame reports whether a runtime may have one image for two references that are not one tag: one names it by a digest, or
// by its ID. Two tags of one image count as two: the other one was there before.
func maybeSame(a, b string) bool {
	if isID(a) || isID(b) {
		return true
	}
	return (strings.Contains(a, "@") || strings.Contains(b, "@")) && registrykey.Repository(a) == registrykey.Repository(b)
}

// isID reports whether a reference is an image's ID, which a runtime knows it by.
func isID(image string) bool { return strings.HasPrefix(image, "sha256:") }

// tag returns the tag of a reference that has one and no digest.
func tag(image string) string { return image[strings.LastIndexByte(image, ':')+1:] }
