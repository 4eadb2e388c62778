package main

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// keptEvents is how many events the agent remembers.
const keptEvents = 1000

// event is an event of a pod or of the node, as the API has it.
type event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Kind    string    `json:"kind"` // pod or node
	Name    string    `json:"name"` // NAMESPACE/NAME of a pod
	Part    string    `json:"part,omitempty"`
	Message string    `json:"message"`
	// Missed is set in an entry of its own: this many events were forgotten before they could be sent.
	Missed int `json:"missed,omitempty"`

	uid types.UID // of the pod
}

// eventLog remembers the newest events. It is safe for concurrent use, and adding never blocks.
type eventLog struct {
	mu      sync.Mutex
	kept    []event
	begin   int           // how many were forgotten, which is the number of kept[0]
	changed chan struct{} // closed by the next event; nil if no reader waits for it
	lives   *timelines    // gets each event too; nil without a page
}

func (l *eventLog) add(e event) {
	if l.lives != nil {
		l.lives.event(&e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == keptEvents {
		l.kept = append(l.kept[:0], l.kept[1:]...)
		l.begin++
	}
	l.kept = append(l.kept, e)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// from returns the events from number next on, the number after them, how many of them were
// forgotten, and a channel that is closed at the next event.
func (l *eventLog) from(next int) (events []event, after, missed int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	missed = max(l.begin-next, 0)
	events = append(events, l.kept[max(next-l.begin, 0):]...)
	return events, l.begin + len(l.kept), missed, l.changed
}

// events answers with the remembered events, those of one pod with ?pod=NAMESPACE/NAME; with
// ?watch=true it continues with each new one, one per line.
func (a *agent) events(w http.ResponseWriter, r *http.Request) {
	wanted := a.eventFilter(r.FormValue("pod"))
	all, _, _, _ := a.recorded.from(0)
	chosen := []event{} // an empty list, not null
	for _, e := range all {
		if wanted.has(e) {
			chosen = append(chosen, e)
		}
	}
	if namespace, name, _ := strings.Cut(wanted.name(), "/"); wanted.pod != "" && len(chosen) == 0 {
		if pods := a.engine.Pods(); findPods(pods, namespace, name) == nil {
			a.failure(w, refusal{http.StatusNotFound, missing(pods, namespace, name).Error()})
			return
		}
	}
	if watch, err := strconv.ParseBool(r.FormValue("watch")); err == nil && watch {
		a.stream(w, r, "application/json", func(ctx context.Context, out *streamWriter) error { return a.followEvents(ctx, wanted, out) })
		return
	}
	a.write(w, http.StatusOK, chosen)
}

func (a *agent) followEvents(ctx context.Context, wanted eventFilter, out *streamWriter) error {
	lines := json.NewEncoder(out)
	for next, first := 0, true; ; first = false {
		events, after, missed, changed := a.recorded.from(next)
		if missed > 0 && !first { // events lost before the first read are of no interest
			if err := lines.Encode(event{Time: time.Now(), Missed: missed}); err != nil {
				return err
			}
		}
		for _, e := range events {
			if !wanted.has(e) {
				continue
			}
			if err := lines.Encode(e); err != nil {
				return err
			}
		}
		next = after
		if err := out.flush(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// eventFilter selects the events of one pod, or all events if its name is empty.
type eventFilter struct {
	node, pod string
	uids      []types.UID // of the known pods that pod means, which may be the beginning of a UID
}

func (a *agent) eventFilter(pod string) eventFilter {
	f := eventFilter{node: a.options.nodeName, pod: pod}
	if pod == "" {
		return f
	}
	namespace, name, _ := strings.Cut(f.name(), "/")
	for _, p := range findPods(a.engine.Pods(), namespace, name) {
		f.uids = append(f.uids, p.UID)
	}
	return f
}

func (f eventFilter) has(e event) bool {
	if f.pod == "" {
		return true
	}
	return e.Kind == "pod" && (e.Name == f.name() || e.Name == f.name()+"-"+f.node || slices.Contains(f.uids, e.uid))
}

// name returns the pod's name with its namespace.
func (f eventFilter) name() string {
	if strings.Contains(f.pod, "/") {
		return f.pod
	}
	return v1.NamespaceDefault + "/" + f.pod
}
