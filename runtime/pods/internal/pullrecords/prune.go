package pullrecords

import (
	"context"
	"errors"
	"io/fs"
)

// Images shows what is in the store of the runtime.
type Images interface {
	// IDs lists all images.
	IDs(ctx context.Context) (map[string]bool, error)
	// ID returns the ID of the image of a name, empty if there is none.
	ID(ctx context.Context, image string) (string, error)
}

// Prune drops the records of images that are gone, and resolves the intents of pulls
// whose outcome is unknown: if the image is present, it gets a record that grants access
// to no pod. Prune makes no call if there are no intents, or if nothing was noted since
// everything was found in order: a record whose image is removed later is still right
// when the image returns.
//
// An image counts as gone when two calls in a row do not find it. So does one that an intent is about: a
// runtime may complete a pull a moment after its caller has given up or was killed. While the runtime lists
// no image at all, none counts as gone: a runtime that has just started may list none,
// and without records all pods could use private images.
func (l *Ledger) Prune(ctx context.Context, images Images) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	clear(l.written)
	due := l.due
	l.due = false
	l.done()
	if !due {
		return nil
	}
	resolved, err := l.prune(ctx, images)
	if resolved && err == nil {
		return nil
	}
	l.turn <- struct{}{}
	defer l.done()
	l.due = true
	return err
}

// prune reports whether everything is in order afterwards.
func (l *Ledger) prune(ctx context.Context, images Images) (resolved bool, err error) {
	records, err := l.store.Records()
	intents, unread := l.store.Intents()
	if err != nil || len(records)+len(intents) == 0 {
		return true, errors.Join(err, unread)
	}
	present, err := images.IDs(ctx)
	if err != nil {
		return false, err
	}
	sure, err := l.dropAbsent(ctx, records, present)
	problems := []error{unread, err}
	for _, image := range intents {
		ok, err := l.resolve(ctx, image, images, len(present) > 0)
		sure = sure && ok
		problems = append(problems, err)
	}
	return sure, errors.Join(problems...)
}

// dropAbsent removes the records of images that were not found twice, and reports
// whether it is sure of all others.
func (l *Ledger) dropAbsent(ctx context.Context, records []string, present map[string]bool) (sure bool, err error) {
	if err := l.take(ctx); err != nil {
		return false, err
	}
	defer l.done()
	before := l.absent
	l.absent = map[string]bool{}
	if len(present) == 0 {
		return false, nil
	}
	var problems []error
	for _, id := range records {
		switch {
		case present[id], l.written[id]:
		case before[id]:
			problems = append(problems, l.store.Delete(id))
		default:
			l.absent[id] = true
		}
	}
	return len(l.absent) == 0, errors.Join(problems...)
}

// resolve decides about an intent that no pull in flight holds, and reports whether it is sure. listed says that the
// runtime lists images.
func (l *Ledger) resolve(ctx context.Context, image string, images Images, listed bool) (sure bool, err error) {
	id, err := images.ID(ctx, image)
	if err != nil {
		return false, err
	}
	if err := l.take(ctx); err != nil {
		return false, err
	}
	defer l.done()
	switch {
	case l.pulling[image] > 0:
		return true, nil
	case id == "" && (!listed || !l.missing[image]):
		l.missing[image] = listed
		return false, nil
	case id != "":
		if _, err := l.store.Load(id); errors.Is(err, fs.ErrNotExist) {
			if err := l.store.Save(&Record{Image: id}); err != nil {
				return false, err
			}
		}
	}
	delete(l.missing, image)
	return true, l.store.RemoveIntent(image)
}
