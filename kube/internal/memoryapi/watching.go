package memoryapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podwright/podwright/internal/timing"
)

// bookmarkPeriod is how often a watch that asked for bookmarks gets one.
const bookmarkPeriod = time.Minute

// selectorOf returns which objects a request selects.
func selectorOf(t target, text string) (func(o object) bool, error) {
	selector, err := fields.ParseSelector(text)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(o object) bool {
		set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
		if pod, ok := o.(*v1.Pod); ok {
			set["spec.nodeName"] = pod.Spec.NodeName
		}
		return (t.namespace == "" || o.GetNamespace() == t.namespace) && selector.Matches(set)
	}, nil
}

// watching is one watch.
type watching struct {
	server *Server
	target target
	chosen func(object) bool
	// after is the revision of the last event.
	after     int64
	bookmarks bool
	to        io.Writer
}

// watch answers a watch until ctx ends, or for the time that it asks for. open is called before the
// first event.
func (s *Server) watch(ctx context.Context, r *http.Request, open func() io.Writer) error {
	t, known := targetOf(r.URL.Path)
	query := r.URL.Query()
	if !known {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "watch", t.groupResource(), "", "the server has no "+r.URL.Path, 0, false)
	}
	chosen, err := selectorOf(t, query.Get("fieldSelector"))
	if err != nil {
		return err
	}
	w := &watching{server: s, target: t, chosen: chosen, bookmarks: query.Get("allowWatchBookmarks") == "true"}
	from := query.Get("resourceVersion")
	streamed := query.Get("sendInitialEvents") == "true"
	if w.after, err = strconv.ParseInt(from, 10, 64); err != nil && from != "" {
		return apierrors.NewBadRequest(err.Error())
	}
	w.to = open()
	if streamed || w.after == 0 {
		if err := w.initial(streamed); err != nil {
			return nil // the client is gone
		}
	}
	var ended <-chan time.Time
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil {
		timer := s.clock.NewTimer(timing.Seconds(int64(seconds)))
		defer timer.Stop()
		ended = timer.C()
	}
	w.follow(ctx, ended)
	return nil
}

// initial sends the existing objects and, for a streamed list, the bookmark that ends it.
func (w *watching) initial(streamed bool) error {
	s := w.server
	s.mu.Lock()
	var there []object
	for _, k := range s.keys() {
		if o := s.objects[k]; k.resource == w.target.resource && w.chosen(o) {
			there = append(there, o)
		}
	}
	w.after = s.revision
	s.mu.Unlock()
	for _, o := range there {
		if err := w.send(watch.Added, o); err != nil {
			return err
		}
	}
	if !streamed {
		return nil
	}
	return w.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
}

// follow sends changes.
func (w *watching) follow(ctx context.Context, ended <-chan time.Time) {
	ticker := w.server.clock.NewTicker(bookmarkPeriod)
	defer ticker.Stop()
	for {
		changes, more := w.since()
		for _, c := range changes {
			if w.send(c.Type, c.Object) != nil {
				return
			}
		}
		select {
		case <-more:
		case <-ticker.C():
			if w.bookmarks && w.bookmark(nil) != nil {
				return
			}
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// since returns the changes after the last event, and a channel that is closed at the next one.
func (w *watching) since() (changes []Change, more <-chan struct{}) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.history {
		if c.Revision > w.after && c.Resource == w.target.resource && w.chosen(c.Object.(object)) {
			changes = append(changes, c)
		}
	}
	w.after = max(w.after, s.revision)
	return changes, s.changed
}

func (w *watching) send(kind watch.EventType, o apiruntime.Object) error {
	text, err := json.Marshal(metav1.WatchEvent{Type: string(kind), Object: apiruntime.RawExtension{Raw: encode(o, w.target.kind)}})
	if err != nil {
		return err
	}
	_, err = w.to.Write(append(text, '\n'))
	return err
}

// bookmark sends an object of the kind that contains only the revision.
func (w *watching) bookmark(annotations map[string]string) error {
	empty := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(w.after, 10), Annotations: annotations}}
	return w.send(watch.Bookmark, empty)
}
