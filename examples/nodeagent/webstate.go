package main

import (
	"bytes"
	"context"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
)

const (
	// pagePeriod is how often a page is told of changes.
	pagePeriod = time.Second
	// pageBeat is how often a page is told that nothing has changed, which detects clients that are gone.
	pageBeat = 15 * time.Second
)

// pageState is what the page shows of the node. Of a pod's spec it contains only names.
type pageState struct {
	Node       string              `json:"node"`
	Version    string              `json:"version"`
	Runtime    string              `json:"runtime"`
	Started    time.Time           `json:"started"`
	Pods       []pagePod           `json:"pods"`
	Problems   []podwright.Problem `json:"problems"`
	Refused    []podwright.Problem `json:"refused"` // manifests
	Conditions []pageCondition     `json:"conditions"`
}

// pagePod is one row of the page's table.
type pagePod struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	UID       string     `json:"uid"`
	Status    string     `json:"status"`
	Tone      string     `json:"tone"` // good, wait, bad or done
	Ready     int        `json:"ready"`
	Total     int        `json:"total"`
	Restarts  int32      `json:"restarts"`
	Since     *time.Time `json:"since,omitempty"`
	IP        string     `json:"ip,omitempty"`
}

// pageCondition is one of the node's conditions.
type pageCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Bad     bool   `json:"bad"`
	Message string `json:"message,omitempty"`
}

// state returns what the page shows now.
func (p *webPage) state() *pageState {
	version, _ := build()
	s := &pageState{
		Node: p.options.nodeName, Version: version, Runtime: p.options.runtime, Started: p.started,
		Pods: []pagePod{}, Problems: []podwright.Problem{}, Refused: []podwright.Problem{},
	}
	pods := p.engine.Pods()
	for i := range pods {
		s.Pods = append(s.Pods, rowOf(&pods[i]))
	}
	for _, problem := range p.engine.Problems() {
		if problem.Kind == "source" {
			s.Refused = append(s.Refused, problem)
		} else {
			s.Problems = append(s.Problems, problem)
		}
	}
	for _, c := range p.engine.NodeConditions() {
		s.Conditions = append(s.Conditions, pageCondition{
			Type: string(c.Type), Status: string(c.Status), Message: c.Message,
			Bad: (c.Status == v1.ConditionTrue) != (c.Type == v1.NodeReady),
		})
	}
	return s
}

func rowOf(pod *v1.Pod) pagePod {
	row := pagePod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Status: podStatus(pod), IP: pod.Status.PodIP}
	row.Ready, row.Total, row.Restarts = counts(pod)
	if !pod.Status.StartTime.IsZero() {
		row.Since = &pod.Status.StartTime.Time
	}
	switch statusColour("STATUS", row.Status) {
	case green:
		row.Tone = "good"
		if row.Ready < row.Total {
			row.Tone = "wait"
		}
	case grey:
		row.Tone = "done"
	case yellow:
		row.Tone = "wait"
	default:
		row.Tone = "bad"
	}
	return row
}

// watchState sends the state, and again whenever it has changed, one per line; an empty line means no change.
func (p *webPage) watchState(w http.ResponseWriter, r *http.Request) {
	p.stream(w, r, "application/json", func(ctx context.Context, out *streamWriter) error {
		defer p.feed.join()()
		beat := time.NewTicker(pageBeat)
		defer beat.Stop()
		for told := []byte(nil); ; {
			line, changed, err := p.feed.newest()
			if err != nil {
				return err
			}
			if !bytes.Equal(line, told) {
				if err := out.send(line); err != nil {
					return err
				}
				told = line
				beat.Reset(pageBeat)
			}
			select {
			case <-changed:
			case <-beat.C:
				if err := out.send([]byte("\n")); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// pageDetail is what the page shows of one pod.
type pageDetail struct {
	podwright.Explanation
	Row     pagePod    `json:"row"`
	Now     time.Time  `json:"now"`
	Steps   []lifeStep `json:"steps"`
	Dropped int        `json:"dropped"`
}

// pod answers with one pod and the steps of its life.
func (p *webPage) pod(w http.ResponseWriter, r *http.Request) {
	pod, err := p.named(r)
	if err != nil {
		p.failure(w, err)
		return
	}
	detail := pageDetail{Row: rowOf(pod), Now: time.Now()}
	detail.Explanation, _ = p.engine.Explain(pod.UID)
	if w := detail.Worker; w != nil {
		w.WaitingFor = plainly(w.WaitingFor)
	}
	detail.Steps, detail.Dropped = p.recorded.lives.steps(pod.UID)
	p.write(w, http.StatusOK, detail)
}
