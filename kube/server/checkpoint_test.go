package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// checkpointer is a runtime that writes the state of containers.
type checkpointer struct {
	direct
	make func(ctx context.Context, q *runtimeapi.CheckpointContainerRequest) error
}

func (c *checkpointer) CheckpointContainer(ctx context.Context, q *runtimeapi.CheckpointContainerRequest) error {
	return c.make(ctx, q)
}

// archive is a runtime's checkpoint, for everyone to read.
func archive(_ context.Context, q *runtimeapi.CheckpointContainerRequest) error {
	return os.WriteFile(q.GetLocation(), []byte("memory of "+q.GetContainerId()), 0o644) //nolint:gosec // as runtimes do
}

// KH10: the answer is the file, named as the kubelet's, which no other user can read; the runtime gets the
// container's ID and the time limit; both need the right to create nodes/checkpoint.
func TestCheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoints")
	var asked []int64
	rt := &checkpointer{make: func(ctx context.Context, q *runtimeapi.CheckpointContainerRequest) error {
		asked = append(asked, q.GetTimeout())
		return archive(ctx, q)
	}}
	r := newRig(t, rt, func(o *Options) { o.CheckpointDir = dir })
	r.may = func(s authorization.SubjectAccessReviewSpec) bool {
		return s.ResourceAttributes.Subresource == "checkpoint" && s.ResourceAttributes.Verb == "create"
	}
	file := fmt.Sprintf("%s/checkpoint-web_default-app-%s.tar", dir, r.clock.Now().Format(time.RFC3339))
	code, body := r.do(r.client(), http.MethodPost, "/checkpoint/default/web/app?timeout=1&timeout=7", "good")
	if want := fmt.Sprintf(`{"items":[%q]}`, file); code != http.StatusOK || body != want {
		t.Errorf("%d %s, want %s", code, body, want)
	}
	content, err := os.ReadFile(file)
	if err != nil || string(content) != "memory of c1" {
		t.Errorf("%q, %v", content, err)
	}
	for path, want := range map[string]os.FileMode{file: 0o600, dir: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	code, body = r.do(r.client(), http.MethodPost, "/checkpoint/default/web/app", "good")
	if code != http.StatusOK || strings.Contains(body, filepath.Base(file)) || fmt.Sprint(asked) != "[7 0]" {
		t.Errorf("another one of the same second: %d %s, limits %v", code, body, asked)
	}
	if code, _ := r.get("/checkpoint/default/web/app", "good"); code != http.StatusForbidden {
		t.Errorf("GET: %d", code)
	}
}

// KH10: the kubelet's codes. What failed leaves no file.
func TestCheckpointFails(t *testing.T) {
	dir := t.TempDir()
	var fails error
	rt := &checkpointer{make: func(ctx context.Context, q *runtimeapi.CheckpointContainerRequest) error {
		return errors.Join(fails, archive(ctx, q))
	}}
	able := newRig(t, rt, func(o *Options) { o.CheckpointDir = dir })
	for _, c := range []struct {
		path  string
		fails error
		code  int
		text  string
	}{
		{"/default/other/app", nil, http.StatusNotFound, "does not exist"},
		{"/default/web/other", nil, http.StatusNotFound, "container other does not exist"},
		{"/default/web/app?timeout=soon", nil, http.StatusNotFound, "timeout"},
		{"/default/web/waiting", nil, http.StatusInternalServerError, "not found"},
		{"/default/web/app", runtime.ErrUnimplemented, http.StatusInternalServerError, "checkpointing of default/web/app failed"},
		{"/default/web/app", errors.New("criu is missing"), http.StatusInternalServerError, "criu is missing"},
	} {
		fails = c.fails
		if code, body := able.do(able.client(), http.MethodPost, "/checkpoint"+c.path, "good"); code != c.code || !strings.Contains(body, c.text) {
			t.Errorf("%s: %d %s, want %d %s", c.path, code, body, c.code, c.text)
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	unable := newRig(t, &direct{}, func(o *Options) { o.CheckpointDir = dir })
	if code, body := unable.do(unable.client(), http.MethodPost, "/checkpoint/default/web/app", "good"); code != http.StatusInternalServerError || !strings.Contains(body, "makes no checkpoints") {
		t.Errorf("a runtime that cannot: %d %s", code, body)
	}
	without := newRig(t, rt)
	if code, _ := without.do(without.client(), http.MethodPost, "/checkpoint/default/web/app", "good"); code != http.StatusNotFound {
		t.Errorf("no folder: %d", code)
	}
}

// KH10, KH9: one checkpoint is made at a time; a client that leaves meanwhile, and the end of the server, end
// the runtime's call and leave no file.
func TestCheckpointEndsWithItsClient(t *testing.T) {
	dir := t.TempDir()
	began, ended := make(chan struct{}, 8), make(chan error, 8)
	rt := &checkpointer{make: func(ctx context.Context, q *runtimeapi.CheckpointContainerRequest) error {
		_ = archive(ctx, q)
		began <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}}
	r := newRig(t, rt, func(o *Options) { o.CheckpointDir = dir })
	ask := func(ctx context.Context) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address+"/checkpoint/default/web/app", nil)
		if err != nil {
			t.Error(err)
			return
		}
		request.Header.Set("Authorization", "Bearer good")
		if response, err := r.client().Do(request); err == nil {
			_ = response.Body.Close()
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	var clients [2]chan struct{}
	for i, ctx := range []context.Context{ctx, t.Context()} {
		clients[i] = make(chan struct{})
		go func() { defer close(clients[i]); ask(ctx) }()
		if i == 0 {
			<-began
		}
	}
	leave()
	<-clients[0]
	<-ended
	<-began // the turn of the second
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	<-ended
	<-clients[1]
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// KH10: a runtime that goes on writing after its call was cut off leaves no file either.
func TestCheckpointWrittenTooLate(t *testing.T) {
	dir := t.TempDir()
	began := make(chan *runtimeapi.CheckpointContainerRequest, 1)
	rt := &checkpointer{make: func(ctx context.Context, q *runtimeapi.CheckpointContainerRequest) error {
		began <- q
		<-ctx.Done()
		return ctx.Err()
	}}
	r := newRig(t, rt, func(o *Options) { o.CheckpointDir = dir })
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address+"/checkpoint/default/web/app", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer good")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if response, err := r.client().Do(request); err == nil {
			_ = response.Body.Close()
		}
	}()
	q := <-began
	leave()
	<-ended
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if err := archive(t.Context(), q); err == nil {
		t.Errorf("the runtime could write %s", q.GetLocation())
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// KH10: what a killed agent left unfinished, which is the memory of processes, goes when the next one begins, or with the next
// checkpoint; finished files stay.
func TestCheckpointLeftUnfinished(t *testing.T) {
	dir := t.TempDir()
	leave := func() {
		folder := filepath.Join(dir, unfinished+"123")
		if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "checkpoint.tar"), []byte("memory"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, files int) {
		t.Helper()
		if left, err := os.ReadDir(dir); len(left) != files || err != nil {
			t.Errorf("%s: %v, %v", when, left, err)
		}
	}
	leave()
	r := newRig(t, &checkpointer{make: archive}, func(o *Options) { o.CheckpointDir = dir })
	want("at the start", 0)
	leave()
	if code, body := r.do(r.client(), http.MethodPost, "/checkpoint/default/web/app", "good"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	want("after a checkpoint", 1)
}

// KH10: a second agent that is started by mistake on the same folder leaves the checkpoint that the first one makes alone.
func TestSecondServerLeavesTheRunningCheckpoint(t *testing.T) {
	dir := t.TempDir()
	began, proceed := make(chan struct{}), make(chan struct{})
	rt := &checkpointer{make: func(ctx context.Context, q *runtimeapi.CheckpointContainerRequest) error {
		err := archive(ctx, q)
		close(began)
		<-proceed
		return err
	}}
	r := newRig(t, rt, func(o *Options) { o.CheckpointDir = dir })
	answered := make(chan string, 1)
	go func() {
		code, body := r.do(r.client(), http.MethodPost, "/checkpoint/default/web/app", "good")
		answered <- fmt.Sprint(code, " ", body)
	}()
	<-began
	if _, err := New(r.server.options); err != nil {
		t.Error(err)
	}
	close(proceed)
	if got := <-answered; !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// KH10: a name that is too long for a file is said to be so.
func TestCheckpointOfALongName(t *testing.T) {
	r := newRig(t, &checkpointer{make: archive}, func(o *Options) { o.CheckpointDir = t.TempDir() })
	r.engine.pod = web.DeepCopy()
	r.engine.pod.Name = strings.Repeat("a", 253)
	code, body := r.do(r.client(), http.MethodPost, "/checkpoint/default/"+r.engine.pod.Name+"/app", "good")
	if code != http.StatusInternalServerError || !strings.Contains(body, "file name too long") || strings.Contains(body, "exists already") {
		t.Errorf("%d %s", code, body)
	}
}

// KH7: /configz has the settings in the kubelet's shape, for those who may see nodes/configz or nodes/proxy.
func TestConfigz(t *testing.T) {
	r := newRig(t, nil, func(o *Options) {
		o.Config = func() any { return map[string]int{"maxPods": 30} }
	})
	r.may = func(s authorization.SubjectAccessReviewSpec) bool {
		return s.ResourceAttributes.Subresource == "configz"
	}
	if code, body := r.get("/configz", "good"); code != http.StatusOK || body != `{"kubeletconfig":{"maxPods":30}}` {
		t.Errorf("%d %s", code, body)
	}
	r.may = func(s authorization.SubjectAccessReviewSpec) bool {
		return s.ResourceAttributes.Subresource == "metrics"
	}
	r.clock.Step(10 * time.Minute)
	if code, _ := r.get("/configz", "good"); code != http.StatusForbidden {
		t.Errorf("without the right: %d", code)
	}
}
