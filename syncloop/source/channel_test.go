package source

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/syncloop"
)

// inProcess is a channel source in a bubble that records its deliveries.
type inProcess struct {
	*Channel
	sets  [][]string
	fail  error
	block chan struct{}
	stop  func()
}

func newInProcess(t *testing.T) *inProcess {
	c := &inProcess{Channel: NewChannel(ChannelOptions{NodeName: "node"})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx, func(ctx context.Context, pods []*v1.Pod) error {
			if c.block != nil {
				select {
				case <-c.block:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			if c.fail != nil {
				return c.fail
			}
			c.sets = append(c.sets, describe(pods))
			return nil
		})
	}()
	c.stop = func() { cancel(); <-done }
	t.Cleanup(c.stop)
	return c
}

func (c *inProcess) want(t *testing.T, what string, sets ...[]string) {
	t.Helper()
	diff(t, what, sets, c.sets)
	c.sets = nil
}

func named(name, image string) *v1.Pod {
	return valid(func(p *v1.Pod) { p.Name, p.Spec.Containers[0].Image = name, image })
}

func TestChannelSetAndApply(t *testing.T) { // P1
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newInProcess(t), t.Context()
		must(t, c.Set(ctx, []*v1.Pod{named("a", "x:1"), named("b", "x:1")}))
		c.want(t, "Set returns after it was accepted", []string{"a x:1", "b x:1"})
		must(t, c.Apply(ctx, []*v1.Pod{named("b", "x:2"), named("c", "x:1")}))
		c.want(t, "Apply adds and replaces by name", []string{"a x:1", "b x:2", "c x:1"})
		uid := c.pods[slices.IndexFunc(c.pods, func(p *v1.Pod) bool { return p.Name == "a" })].UID
		must(t, c.Apply(ctx, nil, uid, "unknown"))
		c.want(t, "Apply removes by UID", []string{"b x:2", "c x:1"})
		must(t, c.Apply(ctx, []*v1.Pod{valid(func(p *v1.Pod) { p.Name, p.UID = "b", c.pods[1].UID })}))
		c.want(t, "one takes the name of the one and the UID of the other", []string{"b app:1"})
		must(t, c.Set(ctx, nil))
		c.want(t, "Set with nothing", []string{})
		if h := c.Health(); h.LastSuccess.IsZero() {
			t.Errorf("health %+v", h)
		}
	})
}

func TestChannelIdentity(t *testing.T) { // D3, D4, D5 for in-process pods
	synctest.Test(t, func(t *testing.T) {
		c := newInProcess(t)
		given := named("a", "x:1")
		must(t, c.Set(t.Context(), []*v1.Pod{given, valid(func(p *v1.Pod) { p.Name, p.UID = "b", "fixed" })}))
		a, b := c.pods[0], c.pods[1]
		if len(a.UID) != 32 || b.UID != "fixed" || a.Namespace != "default" || a.Spec.NodeName != "node" || a.Name != "a" {
			t.Errorf("identity: %s %s/%s on %s, %s", a.UID, a.Namespace, a.Name, a.Spec.NodeName, b.UID)
		}
		diff(t, "hash", string(a.UID), a.Annotations[podinfo.AnnotationHash])
		diff(t, "the caller's pod is not touched", named("a", "x:1"), given)
		must(t, c.Apply(t.Context(), []*v1.Pod{named("a", "x:1")}))
		if again := c.pods[len(c.pods)-1]; again.UID != a.UID {
			t.Errorf("the same pod has another UID: %s, %s", a.UID, again.UID)
		}
		must(t, c.Apply(t.Context(), []*v1.Pod{named("a", "x:2")}))
		if other := c.pods[len(c.pods)-1]; other.UID == a.UID || len(c.pods) != 2 {
			t.Errorf("a changed pod is a new pod: %s, %d pods", other.UID, len(c.pods))
		}
	})
}

// TestChannelRefuses: an invalid pod is left out, keeps its last good version, and
// harms no other (SI9, SRC4).
func TestChannelRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newInProcess(t), t.Context()
		must(t, c.Set(ctx, []*v1.Pod{named("a", "x:1"), named("b", "x:1"), named("c", "x:1")}))
		err := c.Set(ctx, []*v1.Pod{named("a", ""), named("b", "x:2"), nil, named("b", "x:3"), named("../z", "x:1")})
		c.want(t, "sets", []string{"a x:1", "b x:1", "c x:1"}, []string{"a x:1", "b x:2"})
		var first *PodError
		if !errors.As(err, &first) || first.Name != "a" || first.Namespace != "default" {
			t.Errorf("first error %+v", first)
		}
		for _, want := range []string{"pod default/a: spec.containers[0].image", "nil", "pod default/b: another pod", `pod default/../z: metadata.name`} {
			if !contains(fmt.Sprint(err), want) {
				t.Errorf("error %v does not say %q", err, want)
			}
		}
		if !errors.Is(err, ErrDuplicate) {
			t.Error("not an ErrDuplicate")
		}
		if err := c.Apply(ctx, []*v1.Pod{named("b", ""), named("d", "x:1")}); err == nil {
			t.Error("Apply took an invalid pod")
		}
		c.want(t, "Apply", []string{"a x:1", "b x:2", "d x:1"})
	})
}

func TestChannelClose(t *testing.T) { // P3
	for removeAll, want := range map[bool][][]string{false: {{"a x:1"}}, true: {{"a x:1"}, {}}} {
		t.Run(fmt.Sprint("removeAll ", removeAll), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ctx := newInProcess(t), t.Context()
				must(t, c.Set(ctx, []*v1.Pod{named("a", "x:1")}))
				must(t, c.Close(ctx, removeAll))
				c.want(t, "sets", want...)
				for what, err := range map[string]error{
					"Close": c.Close(ctx, true), "Set": c.Set(ctx, nil), "Apply": c.Apply(ctx, nil),
				} {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("%s after Close: %v", what, err)
					}
				}
				if err := c.Run(ctx, nil); err != nil {
					t.Errorf("Run of a closed source: %v", err)
				}
			})
		})
	}
}

// TestChannelGivesUp: a caller whose context ends has changed nothing (P1).
func TestChannelGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newInProcess(t)
		c.block = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Set(ctx, []*v1.Pod{named("lost", "x:1")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Set while the loop is slow: %v", err)
		}
		synctest.Wait() // the delivery ends too
		close(c.block)
		must(t, c.Apply(t.Context(), []*v1.Pod{named("a", "x:1")}))
		c.want(t, "the lost one is lost", []string{"a x:1"})
		c.fail = errors.New("refused")
		if err := c.Set(t.Context(), nil); !errors.Is(err, c.fail) {
			t.Errorf("error of deliver: %v", err)
		}
		c.fail = nil
		must(t, c.Apply(t.Context(), nil))
		c.want(t, "a failed Set changes nothing", []string{"a x:1"})

		waits := NewChannel(ChannelOptions{})
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := waits.Set(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Set before the source is run: %v", err)
		}
	})
}

// channelCalls are the methods of a Channel that wait for Run.
var channelCalls = map[string]func(ctx context.Context, c *Channel) error{
	"Set":   func(ctx context.Context, c *Channel) error { return c.Set(ctx, []*v1.Pod{named("a", "x:1")}) },
	"Apply": func(ctx context.Context, c *Channel) error { return c.Apply(ctx, []*v1.Pod{named("a", "x:1")}) },
	"Close": func(ctx context.Context, c *Channel) error { return c.Close(ctx, true) },
}

// TestChannelAnswersAfterPanic: a delivery that panics, or ends the goroutine of Run, still answers its caller, who
// hears that the change may have taken effect. Callers that wait are served by the next Run.
func TestChannelAnswersAfterPanic(t *testing.T) {
	for name, call := range channelCalls {
		for how, fails := range map[string]func(){"panic": func() { panic("bug") }, "Goexit": runtime.Goexit} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, sets := NewChannel(ChannelOptions{}), [][]string{}
					run := func(ctx context.Context, deliver func()) {
						defer func() { _ = recover() }() // as the loop does
						_ = c.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
							deliver()
							sets = append(sets, describe(pods))
							return nil
						})
					}
					first, second := make(chan error, 1), make(chan error, 1)
					var taken sync.Once
					go run(t.Context(), func() {
						taken.Do(func() { go func() { second <- c.Set(t.Context(), []*v1.Pod{named("b", "x:1")}) }() })
						fails()
					})
					go func() { first <- call(t.Context(), c) }()
					synctest.Wait()
					select {
					case err := <-first:
						if !contains(fmt.Sprint(err), "may have taken effect") || errors.Is(err, ErrClosed) {
							t.Errorf("after a panic: %v", err)
						}
					default:
						t.Fatal("no answer after a panic")
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					go run(ctx, func() {})
					must(t, <-second)
					diff(t, "the next run", [][]string{{"b x:1"}}, sets)
				})
			})
		}
	}
}

// TestPanicOfTheLastRunReleasesWaiters: IN9. A delivery that panics after the loop was told to end is the last one:
// no caller waits for another run.
func TestPanicOfTheLastRunReleasesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, results := NewChannel(ChannelOptions{}), make(chan error, 2)
		ctx, cancel := context.WithCancel(t.Context())
		set := func() { results <- c.Set(t.Context(), nil) }
		go func() {
			defer func() { _ = recover() }() // as the loop does
			_ = c.Run(ctx, func(context.Context, []*v1.Pod) error {
				go set()
				<-time.After(time.Second) // the other one waits
				cancel()
				panic("bug")
			})
		}()
		go set()
		served, waiting := <-results, <-results
		if errors.Is(served, ErrClosed) {
			served, waiting = waiting, served
		}
		if !errors.Is(served, errUnfinished) || !errors.Is(waiting, ErrClosed) {
			t.Errorf("the call that was served: %v, the one that waited: %v", served, waiting)
		}
	})
}

// TestChannelCallerLeavesDeafDelivery: a caller leaves with its context even if the delivery ignores it. The caller
// hears that the change may still take effect, which it does; until then other callers wait, and give up for certain.
func TestChannelCallerLeavesDeafDelivery(t *testing.T) {
	for name, call := range channelCalls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, release := NewChannel(ChannelOptions{}), make(chan struct{})
				delivered := 0
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() {
					done <- c.Run(ctx, func(context.Context, []*v1.Pod) error {
						<-release
						delivered++
						return nil
					})
				}()
				leave := func(call func(context.Context, *Channel) error) error {
					soon, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					result := make(chan error, 1)
					go func() { result <- call(soon, c) }()
					select {
					case err := <-result:
						return err
					case <-time.After(time.Minute):
						close(release) // so that the test ends
						t.Fatal("the caller's context ended, but not the call")
						return nil
					}
				}
				const mayBe = "may still take effect"
				if err := leave(call); !errors.Is(err, context.DeadlineExceeded) || !contains(err.Error(), mayBe) {
					t.Errorf("during the delivery: %v", err)
				}
				if err := leave(channelCalls["Set"]); !errors.Is(err, context.DeadlineExceeded) || contains(err.Error(), mayBe) {
					t.Errorf("before the delivery: %v", err)
				}
				close(release)
				synctest.Wait()
				if delivered != 1 || c.Health().LastSuccess.IsZero() {
					t.Errorf("%d deliveries, health %+v", delivered, c.Health())
				}
				if name != "Close" {
					diff(t, "the set", []string{"a x:1"}, describe(c.pods))
					must(t, c.Set(t.Context(), nil))
				}
				cancel()
				if err := <-done; (err == nil) != (name == "Close") {
					t.Errorf("Run: %v", err)
				}
			})
		})
	}
}

// TestChannelCallerMayReuseItsArguments: Run may make a change after its caller has left, and then reads nothing that
// belongs to the caller.
func TestChannelCallerMayReuseItsArguments(t *testing.T) {
	c, result, remove := NewChannel(ChannelOptions{}), make(chan error, 1), []types.UID{"b"}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { result <- c.Apply(ctx, nil, remove...) }()
	r := <-c.requests // in place of Run
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Apply: %v", err)
	}
	remove[0] = "a"
	next := r.change([]*v1.Pod{valid(func(p *v1.Pod) { p.Name, p.UID = "a", "a" }), valid(func(p *v1.Pod) { p.Name, p.UID = "b", "b" })})
	diff(t, "what stays", []string{"a app:1"}, describe(next))
}

// TestEndedRunRefusesAtOnce: IN9. Once Run has ended with its context, it serves no
// request: each call returns ErrClosed at once, including those that wait. A later Run
// serves again.
func TestEndedRunRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newInProcess(t)
		must(t, c.Set(t.Context(), []*v1.Pod{named("a", "x:1")}))
		c.block = make(chan struct{})
		const n = 10
		results := make(chan error, n)
		for range n { // one is being served, the others wait for their turn
			go func() { results <- c.Set(t.Context(), nil) }()
		}
		synctest.Wait()
		begin := time.Now()
		c.stop()
		closed := 0
		for range n {
			switch err := <-results; {
			case errors.Is(err, ErrClosed):
				closed++
			case !errors.Is(err, context.Canceled):
				t.Errorf("waiting Set: %v", err)
			}
		}
		if closed != n-1 {
			t.Errorf("%d of %d waiting calls returned ErrClosed", closed, n-1)
		}
		for what, err := range map[string]error{
			"Set": c.Set(t.Context(), nil), "Apply": c.Apply(t.Context(), nil), "Close": c.Close(t.Context(), true),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Run ended: %v", what, err)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the refusals took %v", took)
		}

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx, func(context.Context, []*v1.Pod) error { return nil }) }()
		synctest.Wait()
		must(t, c.Set(t.Context(), nil))
		cancel()
		<-done
	})
}

// TestChannelInALoop: P2 and P3 against the real mux.
func TestChannelInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewChannel(ChannelOptions{})
		var work []string
		loop, err := syncloop.New(func(w syncloop.Work) {
			work = append(work, w.Kind.String()+" "+w.Pod.Name)
		}, syncloop.Options{Sources: []syncloop.Source{c}})
		must(t, err)
		done := make(chan error)
		go func() { done <- loop.Run(t.Context()) }()
		synctest.Wait()
		if loop.Ready() {
			t.Error("ready before the first Set (P2)")
		}
		must(t, c.Set(t.Context(), []*v1.Pod{named("a", "x:1")}))
		synctest.Wait()
		if !loop.Ready() {
			t.Error("not ready after the first Set (P2)")
		}
		must(t, c.Apply(t.Context(), []*v1.Pod{named("a", "x:2")}))
		must(t, c.Close(t.Context(), false))
		if err := <-done; err != nil {
			t.Errorf("Run after the only source closed: %v (B1)", err)
		}
		diff(t, "work", []string{"create a", "kill a", "create a"}, work)
		if loop.Store().Pods()[0].Annotations[podinfo.AnnotationSource] != "channel" {
			t.Error("source annotation")
		}
	})
}

// FuzzDecode: no manifest makes the decoder panic or yields a pod whose names could
// leave a folder.
func FuzzDecode(f *testing.F) {
	f.Add(manifestOf("web", "app:1"))
	f.Add("apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  uid: ../x\nspec:\n  volumes: [{name: ..}]\n")
	f.Add("---\n---\n{}")
	f.Add("a: &a [*a]")
	d, err := newDecoder("node", true)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		pod, err := d.decode([]byte(manifest), "file:/x")
		if pod == nil {
			if err == nil {
				t.Fatal("neither a pod nor an error")
			}
			return
		}
		names := []string{pod.Name, pod.Namespace, string(pod.UID)}
		for _, v := range pod.Spec.Volumes {
			names = append(names, v.Name)
		}
		eachContainer(&pod.Spec, func(c *v1.Container, _ string, _ int) { names = append(names, c.Name) })
		for _, n := range names {
			if n == "" || n[0] == '.' || slices.ContainsFunc([]rune(n), func(r rune) bool { return r < ' ' || r == '/' || r == 0x7f }) || contains(n, "..") {
				t.Fatalf("name %q got through", n)
			}
		}
	})
}
