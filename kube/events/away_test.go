package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clienttesting "k8s.io/client-go/testing"
)

// stored follows the order in which a server stores the events of one namespace, by their messages.
func stored(a clienttesting.Action, namespace string, order *[]string) {
	if create, ok := a.(clienttesting.CreateAction); ok && a.GetNamespace() == namespace {
		*order = append(*order, create.GetObject().(*v1.Event).Message)
	}
}

// TestServerAwayForOneNamespaceHoldsNoOther: KV4. A namespace whose events get no answer (a webhook that hangs behind a load
// balancer that cuts the connection) or are too many (the plugin EventRateLimit) holds up no other. However long it lasts, none is
// dropped, and they come in order afterwards.
func TestServerAwayForOneNamespaceHoldsNoOther(t *testing.T) {
	for name, err := range map[string]error{
		"no answer": errors.New("unexpected EOF"),
		"limited":   apierrors.NewTooManyRequestsError("limit reached on type Namespace for key shop"),
		"away":      apierrors.NewServiceUnavailable("away"),
		"expired":   apierrors.NewUnauthorized("expired"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := start(t)
				var order, want []string
				x.setFault(func(a clienttesting.Action) error {
					if a.GetNamespace() == "shop" {
						return err
					}
					return nil
				})
				for i := range 10 {
					x.Eventf(about(fmt.Sprint("pod-", i)), v1.EventTypeWarning, "BackOff", "%d", i)
					want = append(want, fmt.Sprint(i))
				}
				for i := range 4 {
					x.Eventf(in("bank", fmt.Sprint("db-", i)), v1.EventTypeNormal, "Started", "it does")
					if got := x.has(); len(got) != i+1 {
						t.Errorf("after %d h the server has %q", i, got)
					}
					<-time.After(time.Hour)
				}
				if n := x.called(); n > 4*60*2+4+10 {
					t.Errorf("%d calls in 4 h", n)
				}
				x.setFault(func(a clienttesting.Action) error { stored(a, "shop", &order); return nil })
				<-time.After(time.Minute)
				if n := len(x.has()); n != 4+10 || !slices.Equal(order, want) {
					t.Errorf("afterwards the server has %d events, those of the namespace in the order %q", n, order)
				}
			})
		})
	}
}

// TestOutageOfManyNamespaces: KV4. A server that is away for hours is called as rarely for many namespaces as for few, and told of
// once. Nothing is lost, and the events of a namespace come in order.
func TestOutageOfManyNamespaces(t *testing.T) {
	for _, n := range []int{1, 2, 5, 40} {
		synctest.Test(t, func(t *testing.T) {
			x, logged := startLogged(t)
			x.setFault(func(clienttesting.Action) error { return errors.New("no route") })
			var order, want []string
			for i := range 4 {
				for j := range n {
					x.Eventf(in(fmt.Sprint("ns", j), fmt.Sprint("web-", i)), v1.EventTypeNormal, "Started", "%d", i)
				}
				want = append(want, fmt.Sprint(i))
				<-time.After(time.Hour)
			}
			most := 4*60*2 + 10
			if n == 2 { // they could be two namespaces that the server does not take
				most *= 2
			}
			if calls := x.called(); calls > most {
				t.Errorf("%d namespaces: %d calls in 4 h, at most %d", n, calls, most)
			}
			if text := logged(); strings.Count(text, "\n") != 1 {
				t.Errorf("%d namespaces: want one line: %s", n, text)
			}
			x.setFault(func(a clienttesting.Action) error { stored(a, "ns0", &order); return nil })
			<-time.After(time.Minute)
			if got := len(x.has()); got != 4*n || !slices.Equal(order, want) {
				t.Errorf("%d namespaces: %d events come, those of one in the order %q", n, got, order)
			}
			if len(x.held) != 0 || x.away != 0 {
				t.Errorf("%d namespaces: afterwards %v is held, %d", n, x.held, x.away)
			}
		})
	}
}

// TestEndOfRunDoesNotPause: KV4. What waits at the end of Run is sent, although the pauses of a long outage are not over.
func TestEndOfRunDoesNotPause(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			x := start(t)
			x.setFault(func(clienttesting.Action) error { return errors.New("no route") })
			for i := range n {
				x.Eventf(in(fmt.Sprint("ns", i), "web"), v1.EventTypeNormal, "Stopped", "it did")
			}
			<-time.After(time.Hour)
			x.setFault(nil)
			x.end()
			if got := x.has(); len(got) != n {
				t.Errorf("%d namespaces: %q", n, got)
			}
		})
	}
}

// TestCutOffCallIsRepeated: KV4. The event whose call the end of Run cuts off is sent again.
func TestCutOffCallIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := start(t)
		x.setFault(func(clienttesting.Action) error {
			x.mu.Unlock()
			defer x.mu.Lock()
			<-time.After(time.Second)
			return errors.New("cut off")
		})
		x.Eventf(about("web"), v1.EventTypeNormal, "Stopped", "it did")
		synctest.Wait()
		x.setFault(nil)
		x.end()
		x.want("at the end", "web Stopped it did x1")
	})
}

// TestOldestEventMakesRoom: KV4. An event that was tried keeps its place among the others: the oldest one makes room in a full
// queue, whichever namespace it is of.
func TestOldestEventMakesRoom(t *testing.T) {
	q := newQueue(3)
	free := func(string) (time.Time, bool) { return time.Time{}, true }
	of := func(namespace string) func(string) (time.Time, bool) {
		return func(n string) (time.Time, bool) { return time.Time{}, n == namespace }
	}
	event := func(namespace, name string) *v1.Event {
		e := &v1.Event{}
		e.Namespace, e.Name = namespace, name
		return e
	}
	q.push(event("a", "1"))
	q.push(event("b", "2"))
	q.push(event("a", "3"))
	tried, _ := q.pop(of("b"))
	q.push(event("a", "4"))
	q.putBack(tried) // makes the first one go
	q.push(event("a", "5"))
	var got []string
	dropped := 0
	for e, n := q.pop(free); e != nil; e, n = q.pop(free) {
		got, dropped = append(got, e.event.Name), dropped+n
	}
	if !slices.Equal(got, []string{"3", "4", "5"}) || dropped != 2 {
		t.Errorf("%q wait, %d dropped", got, dropped)
	}
}
