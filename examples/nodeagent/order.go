package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podworkers"
)

// A client that asks for progress gets the head of the answer after orderTaken, which says that the order
// was taken. From then on it is told periodically what the order waits for.
const (
	orderTaken  = 100 * time.Millisecond
	orderPeriod = 3 * time.Second
)

// orderStep is a line of the answer to an order, before the last one.
type orderStep struct {
	Waiting string `json:"waiting,omitempty"`
	Error   string `json:"error,omitempty"`
	Code    int    `json:"code,omitempty"` // the HTTP status code that belongs to the error
}

// obey carries out an order and then answers with done. With ?progress=true the answer periodically
// gets a line that says what the order waits for, and ends with done or with an error.
func (a *agent) obey(w http.ResponseWriter, r *http.Request, pod *v1.Pod, order func(ctx context.Context) error, done func() any) {
	a.streamIn(a.orders, w, r, "application/json", func(ctx context.Context, out *streamWriter) error {
		lines := json.NewEncoder(out)
		result := make(chan error, 1)
		go func() { result <- order(ctx) }()
		var taken, progress <-chan time.Time
		if r.FormValue("progress") == "true" {
			tick := time.NewTicker(orderPeriod)
			defer tick.Stop()
			taken, progress = time.After(orderTaken), tick.C
		}
		for {
			select {
			case <-taken:
				_ = out.flush() // if the client is gone, so is the order's context
			case <-progress:
				if err := errors.Join(lines.Encode(orderStep{Waiting: a.podWaitsFor(pod)}), out.flush()); err != nil {
					progress = nil // the client is gone, and the order's context ends with its connection
				}
			case err := <-result:
				if errors.Is(err, podworkers.ErrStopped) || a.over.Err() != nil && errors.Is(err, context.Canceled) {
					err = refusal{http.StatusServiceUnavailable, "the agent ends; the next one shows whether the order is carried out"}
				}
				switch {
				case err == nil:
					return lines.Encode(done())
				case out.begun:
					code, text := statusOf(err)
					return lines.Encode(orderStep{Error: text, Code: code})
				}
				return err
			}
		}
	})
}

// podWaitsFor says what a pod waits for.
func (a *agent) podWaitsFor(pod *v1.Pod) string {
	e, _ := a.engine.Explain(pod.UID)
	return fmt.Sprintf("pod %s/%s: %s", pod.Namespace, pod.Name, orderWaitsFor(e))
}

// orderWaitsFor says what keeps a pod from its next step, with the error of the last one.
func orderWaitsFor(e podwright.Explanation) string {
	waits := cmp.Or(e.Held, "its next step")
	if e.Worker != nil {
		waits = cmp.Or(e.Held, plainly(e.Worker.WaitingFor), waits)
		if e.Worker.LastError != "" {
			waits += ", after " + cut(e.Worker.LastError, maxToldError)
		}
	}
	return waits
}

// order posts an order about a pod and returns its last answer once the order is done; meanwhile it prints
// to standard error what it waits for. A user who interrupts it, or whose patience (0: no limit) ends, is told whether the order
// continues.
func (r *reach) order(c *cobra.Command, path string, query url.Values, what string, patience time.Duration) (answer []byte, err error) {
	api, err := r.open(c.Flags())
	if err != nil {
		return nil, err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	query.Set("progress", "true")
	response, err := api.open(ctx, http.MethodPost, path+"?"+query.Encode())
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted; %s goes on if the agent has taken the order, which it had not said yet", what)
		}
		return nil, err
	}
	defer response.Body.Close()
	answer, err = api.lastLine(response, func(waiting string) {
		fmt.Fprintln(c.ErrOrStderr(), "waiting for", printable(waiting))
	})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s has taken longer than %v, and goes on without this command", what, patience)
	}
	if ctx.Err() != nil {
		return nil, errors.New(what + " goes on without this command")
	}
	return answer, err
}

// lastLine reads the lines of the answer to an order, and returns the last one.
func (c *apiClient) lastLine(response *http.Response, waiting func(string)) ([]byte, error) {
	for lines := json.NewDecoder(response.Body); ; {
		var line json.RawMessage
		if err := lines.Decode(&line); err != nil {
			return nil, c.brokenOff(err)
		}
		step, err := decode[orderStep](line)
		switch {
		case err != nil:
			return nil, err
		case step.Error != "":
			return nil, refused(step.Code, step.Error)
		case step.Waiting == "":
			return line, nil
		}
		waiting(step.Waiting)
	}
}
