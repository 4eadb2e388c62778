package pullrecords_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/registrykey"
	"github.com/podwright/podwright/runtime/pods/internal/credentials"
	"github.com/podwright/podwright/runtime/pods/internal/pullrecords"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	image      = "reg.io/a:1"
	repository = "reg.io/a"
	id         = "sha256:1"
)

// from returns the credential of a secret.
func from(t *testing.T, name string, uid types.UID, password string) credentials.Credential {
	t.Helper()
	k, err := credentials.New([]*v1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid},
		Type:       v1.SecretTypeDockercfg,
		Data:       map[string][]byte{v1.DockerConfigKey: fmt.Appendf(nil, `{"reg.io":{"username":"u","password":%q}}`, password)},
	}}, credentials.NodeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return k.Lookup(repository)[0]
}

type bench struct {
	t     *testing.T
	l     *pullrecords.Ledger
	store pullrecords.Store
}

func newBench(t *testing.T, p pullrecords.Policy) *bench {
	b := &bench{t: t, store: pullrecords.FileStore{Dir: filepath.Join(t.TempDir(), "images")}}
	b.restart(p)
	return b
}

func (b *bench) restart(p pullrecords.Policy) { b.l = pullrecords.New(p, b.store, logr.Discard()) }

// begin begins a pull with a secret.
func (b *bench) begin() *pullrecords.Pull {
	b.t.Helper()
	p, err := b.l.Begin(b.t.Context(), image, repository, []credentials.Credential{from(b.t, "a", "1", "pw")})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) pull(by *credentials.Credential) {
	b.t.Helper()
	var with []credentials.Credential
	if by != nil {
		with = append(with, *by)
	}
	p, err := b.l.Begin(b.t.Context(), image, repository, with)
	if err != nil {
		b.t.Fatal(err)
	}
	p.End(pullrecords.Outcome{ID: id, By: by})
}

func (b *bench) may(have ...credentials.Credential) bool {
	b.t.Helper()
	ok, err := b.l.MayUse(b.t.Context(), image, repository, id, func() ([]credentials.Credential, error) { return have, nil }, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return ok
}

func (b *bench) intents() int {
	b.t.Helper()
	list, err := b.store.Intents()
	if err != nil {
		b.t.Fatal(err)
	}
	return len(list)
}

// spec/runtime.md 9.9: which pods may use what, and what is recorded.
func TestAccessIsGrantedByCredentialOrSecret(t *testing.T) {
	b := newBench(t, pullrecords.Policy{})
	a, other := from(t, "a", "1", "pw"), from(t, "b", "2", "other")
	if !b.may() {
		t.Error("9.9: all pods may use a preloaded image")
	}
	b.pull(&a)
	if b.may() || b.may(other) {
		t.Error("9.9: usable without the secret it was pulled with")
	}
	if !b.may(other, a) {
		t.Error("9.9: not usable with the same secret")
	}
	copied := from(t, "copy", "3", "pw")
	if !b.may(copied) {
		t.Error("9.9: not usable with the same content")
	}
	rotated := from(t, "copy", "3", "new")
	if !b.may(rotated) {
		t.Error("9.9: the secret with the same content was not recorded")
	}
	if !b.may(from(t, "fourth", "4", "new")) {
		t.Error("9.9: the new content of a known secret was not recorded")
	}
	if b.may(from(t, "copy", "5", "wrong")) {
		t.Error("9.9: usable with a new secret of the same name")
	}
	b.restart(pullrecords.Policy{})
	if b.may(other) || !b.may(a) {
		t.Error("9.9: forgotten by a restart")
	}
	b.pull(nil)
	if !b.may() {
		t.Error("9.9: an anonymous pull is node-wide")
	}
	b.pull(&a)
	if !b.may() {
		t.Error("9.9: node-wide access is not taken back")
	}
	if ok, err := b.l.MayUse(t.Context(), "other.io/a", "other.io/a", id, nil, nil); ok || err != nil {
		t.Errorf("9.9: pulled from elsewhere: %v, err %v", ok, err)
	}
}

// spec/runtime.md 9.9: the policies.
func TestPolicySaysWhichImagesAreVerified(t *testing.T) {
	for _, tc := range []struct {
		policy            pullrecords.Policy
		preloaded, pulled bool // usable without a credential
	}{
		{pullrecords.Policy{}, true, false},
		{pullrecords.Policy{Verify: pullrecords.PreloadedExempt}, true, false},
		{pullrecords.Policy{Verify: pullrecords.Nothing}, true, true},
		{pullrecords.Policy{Verify: pullrecords.Everything}, false, false},
		{pullrecords.Policy{Verify: pullrecords.Allowlisted}, false, false},
		{pullrecords.Policy{Verify: pullrecords.Allowlisted, Exempt: []string{"reg.io/a"}}, true, true},
		{pullrecords.Policy{Verify: pullrecords.Allowlisted, Exempt: []string{"reg.io/*"}}, true, true},
		{pullrecords.Policy{Verify: pullrecords.Allowlisted, Exempt: []string{"reg.io/a/*", "reg.io"}}, false, false},
	} {
		if err := tc.policy.Check(); err != nil {
			t.Errorf("%+v: %v", tc.policy, err)
		}
		b := newBench(t, tc.policy)
		preloaded := b.may()
		a := from(t, "a", "1", "pw")
		b.pull(&a)
		if pulled := b.may(); preloaded != tc.preloaded || pulled != tc.pulled || !b.may(a) {
			t.Errorf("9.9: %+v: preloaded %v, pulled %v", tc.policy, preloaded, pulled)
		}
	}
	for _, p := range []pullrecords.Policy{
		{Verify: "x"},
		{Exempt: []string{"reg.io/a"}},
		{Verify: pullrecords.Allowlisted, Exempt: []string{"reg.io/a:1"}},
		{Verify: pullrecords.Allowlisted, Exempt: []string{"reg.io/a@sha256:1"}},
		{Verify: pullrecords.Allowlisted, Exempt: []string{"*"}},
		{Verify: pullrecords.Allowlisted, Exempt: []string{"reg.io/*/a"}},
		{Verify: pullrecords.Allowlisted, Exempt: []string{""}},
	} {
		if p.Check() == nil {
			t.Errorf("9.9: %+v is accepted", p)
		}
	}
}

// 9.9: an image is not preloaded either if the pull that has begun spells its name otherwise: a runtime knows
// it by all of its names, and by its ID. Other images of the repository are not concerned.
func TestIntentCountsForEveryName(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, tc := range []struct {
		pulled, used string
		present      string // the ID of what is pulled
		open         bool   // the pull counts
	}{
		{"nginx:latest", "docker.io/library/nginx:latest", "", true},
		{"docker.io/library/nginx:1", "nginx:1", "", true},
		{"docker.io/me/app:1", "me/app:1", "", true},
		{"reg.io:5000/app:1", "reg.io:5000/app" + digest, id, true},
		{"reg.io:5000/app:1", "reg.io:5000/app" + digest, "another", false},
		{"reg.io:5000/app:1", "reg.io:5000/app" + digest, "", false},
		{"reg.io/app" + digest, "reg.io/app:1", id, true},
		{"reg.io/app" + digest, "reg.io/app:1", "", false},
		{"reg.io/app:1", id, id, true},
		{"reg.io/app:1", id, "another", false},
		{"nginx:1", "nginx:2", id, false},
		{"nginx:1", "docker.io/library/redis:1", id, false},
		{"reg.io/app:1", "other.io/app" + digest, id, false},
	} {
		b := newBench(t, pullrecords.Policy{})
		with := []credentials.Credential{from(t, "a", "1", "pw")}
		p, err := b.l.Begin(t.Context(), tc.pulled, registrykey.Repository(tc.pulled), with)
		if err != nil {
			t.Fatal(err)
		}
		identify := func(_ context.Context, image string) (string, error) {
			if image != tc.pulled {
				t.Errorf("asked for %s", image)
			}
			return tc.present, nil
		}
		for _, when := range []string{"while it is pulled", "after a crash"} {
			usable, err := b.l.MayUse(t.Context(), tc.used, registrykey.Repository(tc.used), id, func() ([]credentials.Credential, error) { return nil, nil }, identify)
			if err != nil || usable == tc.open {
				t.Errorf("%s, pulled as %s with ID %q, %s: usable %v, %v", tc.used, tc.pulled, tc.present, when, usable, err)
			}
			b.restart(pullrecords.Policy{})
		}
		p.End(pullrecords.Outcome{})
	}
}

// spec/runtime.md 9.9: while an image is pulled, and while it is unknown how that
// ended, it does not count as preloaded.
func TestImageWithAnIntentIsNotPreloaded(t *testing.T) {
	a := from(t, "a", "1", "pw")
	for _, tc := range []struct {
		name    string
		outcome pullrecords.Outcome
		stays   bool
	}{
		{"failed", pullrecords.Outcome{}, false},
		{"failed with a secret", pullrecords.Outcome{By: &a}, false},
		{"unknown", pullrecords.Outcome{Unknown: true}, false},
		{"unknown with a secret", pullrecords.Outcome{Unknown: true, By: &a}, true},
		{"pulled", pullrecords.Outcome{ID: id}, false},
	} {
		b := newBench(t, pullrecords.Policy{})
		first, second := b.begin(), b.begin()
		if b.may(a) || b.intents() != 1 {
			t.Errorf("9.9: %s: usable while it is pulled, or %d intents", tc.name, b.intents())
		}
		first.End(tc.outcome)
		if b.intents() != 1 {
			t.Errorf("9.9: %s: the intent of the second pull is gone", tc.name)
		}
		second.End(tc.outcome)
		if b.intents() != map[bool]int{true: 1}[tc.stays] {
			t.Errorf("9.9: %s: %d intents at the end", tc.name, b.intents())
		}
		if tc.stays == b.may() {
			t.Errorf("9.9: %s: usable %v", tc.name, !tc.stays)
		}
		// A pull that fails later does not hide what was left.
		b.begin().End(pullrecords.Outcome{})
		if tc.stays == b.may() {
			t.Errorf("9.9: %s, and then failed: usable %v", tc.name, !tc.stays)
		}
		b.pull(&a)
		if b.intents() != 0 || b.may() != (tc.outcome.ID != "") || !b.may(a) {
			t.Errorf("9.9: %s, and then pulled: %d intents", tc.name, b.intents())
		}
	}
}

// images is an image store for Prune.
type images struct {
	calls int
	ids   map[string]bool
	named map[string]string
	err   error
}

func (i *images) IDs(context.Context) (map[string]bool, error) { i.calls++; return i.ids, i.err }
func (i *images) ID(_ context.Context, image string) (string, error) {
	i.calls++
	return i.named[image], i.err
}

func (b *bench) prune(i *images) {
	b.t.Helper()
	if err := b.l.Prune(b.t.Context(), i); !errors.Is(err, i.err) {
		b.t.Fatal(err)
	}
}

// spec/runtime.md 9.9: intents left from a crash, and records of images that went.
func TestPruneResolvesIntentsAndDropsAbsentImages(t *testing.T) {
	b := newBench(t, pullrecords.Policy{})
	idle := &images{}
	if b.prune(idle); idle.calls != 0 {
		t.Errorf("%d calls with nothing to resolve", idle.calls)
	}
	b.begin()
	b.restart(pullrecords.Policy{}) // the crash
	b.prune(&images{err: context.DeadlineExceeded})
	b.prune(&images{ids: map[string]bool{id: true}, named: map[string]string{image: id}})
	if b.intents() != 0 || b.may() {
		t.Error("9.9: an image of unknown origin is usable")
	}
	resolved := &images{ids: map[string]bool{id: true}}
	b.prune(resolved)
	if resolved.calls != 0 {
		t.Errorf("%d calls with nothing new", resolved.calls)
	}
	a := from(t, "a", "1", "pw")
	b.pull(&a)
	for _, ids := range []map[string]bool{{}, {}, {"x": true}, {id: true}, {"x": true}} {
		b.prune(&images{ids: ids})
		if b.may() || !b.may(a) {
			t.Errorf("9.9: record lost with images %v", ids)
		}
	}
	b.pull(&a) // something is due again
	b.prune(&images{ids: map[string]bool{"x": true}})
	b.prune(&images{ids: map[string]bool{"x": true}})
	if _, err := b.store.Load(id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("9.9: the record of an image that is gone: %v", err)
	}
	b.begin()
	b.restart(pullrecords.Policy{})
	for range 2 {
		b.prune(&images{ids: map[string]bool{"x": true}})
	}
	if b.intents() != 0 || !b.may() {
		t.Error("9.9: the intent for an image that never came")
	}
	b.begin()
	b.prune(&images{ids: map[string]bool{"x": true}})
	if b.intents() != 1 {
		t.Error("9.9: the intent of a pull in flight is gone")
	}
}

// spec/runtime.md 9.9: a runtime that completes a pull a moment after the agent was killed, or has given up, makes no
// private image usable for all.
func TestImageThatComesAfterAPrune(t *testing.T) {
	a := from(t, "a", "1", "pw")
	for name, leave := range map[string]func(b *bench){
		"killed":   func(b *bench) { b.begin(); b.restart(pullrecords.Policy{}) },
		"given up": func(b *bench) { b.begin().End(pullrecords.Outcome{Unknown: true, By: &a}) },
	} {
		b := newBench(t, pullrecords.Policy{})
		leave(b)
		b.prune(&images{ids: map[string]bool{"x": true}})
		if b.may() {
			t.Errorf("9.9: %s: usable before its record is made", name)
		}
		found := &images{ids: map[string]bool{id: true}, named: map[string]string{image: id}}
		if b.prune(found); b.intents() != 0 || b.may() || b.may(a) {
			t.Errorf("9.9: %s: an image of unknown origin is usable, or %d intents are left", name, b.intents())
		}
	}
}

// spec/runtime.md 9.9: what cannot be read forces a pull, and is written again.
func TestUnreadableRecordForcesAPull(t *testing.T) {
	for _, text := range []string{"", "{", `{"version":2}`, `{"version":1}`, `{"version":1,"record":{"image":"sha256:2"}}`, `[]`} {
		b := newBench(t, pullrecords.Policy{})
		b.pull(nil)
		files, err := filepath.Glob(filepath.Join(b.store.(pullrecords.FileStore).Dir, "pulled", "*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if b.may() {
			t.Errorf("9.9: usable with a record %q", text)
		}
		b.pull(nil)
		if !b.may() {
			t.Errorf("9.9: record %q not written again", text)
		}
	}
}

// spec/runtime.md 9.9: a loss of power leaves no half of a record, which would force a pull, whoever may use the image. A
// record that changes nothing is not written.
func TestRecordsAreSynced(t *testing.T) {
	b := newBench(t, pullrecords.Policy{})
	var synced []string
	b.store = b.store.(pullrecords.FileStore).Replacing(func(name string) { synced = append(synced, filepath.Dir(name)) })
	b.restart(pullrecords.Policy{})
	a := from(t, "a", "1", "pw")
	for _, step := range []struct {
		by   *credentials.Credential
		want string
	}{
		{&a, "pulling pulled"}, {&a, "pulling pulled"}, {nil, "pulled"}, {nil, ""}, {&a, "pulling"},
	} {
		synced = nil
		b.pull(step.by)
		if got := strings.Join(synced, " "); got != step.want {
			t.Errorf("9.9: synced %q, want %q", got, step.want)
		}
	}
}

// The files are the owner's only and hold no credential; a full disk stops pulls
// before they begin.
func TestFilesAreTheOwnersAndHoldNoCredential(t *testing.T) {
	b := newBench(t, pullrecords.Policy{})
	a := from(t, "a", "1", "hunter2")
	b.begin().End(pullrecords.Outcome{Unknown: true, By: &a})
	b.pull(&a)
	last := b.begin()
	dir := b.store.(pullrecords.FileStore).Dir
	files := 0
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, err %v", p, info.Mode(), err)
		}
		if d.IsDir() {
			return nil
		}
		files++
		text, err := os.ReadFile(p)
		if strings.Contains(string(text), "hunter2") {
			t.Errorf("%s holds the password", p)
		}
		return err
	})
	if err != nil || files != 2 {
		t.Errorf("%d files, err %v", files, err)
	}
	last.End(pullrecords.Outcome{})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.l.Begin(t.Context(), image, repository, []credentials.Credential{a}); err == nil {
		t.Error("a pull may begin without a note")
	}
	if p, err := b.l.Begin(t.Context(), image, repository, nil); err != nil {
		t.Errorf("a pull without a secret needs no note: %v", err)
	} else {
		p.End(pullrecords.Outcome{ID: id})
	}
}

// A wait for another write can be given up.
func TestGiveUpWaiting(t *testing.T) {
	store := &slowStore{held: make(chan struct{}), free: make(chan struct{})}
	l := pullrecords.New(pullrecords.Policy{}, store, logr.Discard())
	done := make(chan error)
	with := []credentials.Credential{from(t, "a", "1", "pw")}
	go func() {
		_, err := l.Begin(t.Context(), image, repository, with)
		done <- err
	}()
	<-store.held
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Begin(ctx, image, repository, with); !errors.Is(err, context.Canceled) {
		t.Errorf("err %v", err)
	}
	close(store.free)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// slowStore hangs when an intent is added.
type slowStore struct {
	pullrecords.Store
	held, free chan struct{}
}

func (s *slowStore) Intents() ([]string, error) { return nil, nil }
func (s *slowStore) AddIntent(string) (bool, error) {
	close(s.held)
	<-s.free
	return false, nil
}

// The list of secrets of one image does not grow without end.
func TestManySecrets(t *testing.T) {
	r := &pullrecords.Record{Image: id}
	for i := range 250 {
		c := from(t, fmt.Sprint("s", i), types.UID(fmt.Sprint(i)), fmt.Sprint("pw", i))
		r = r.With(repository, &c)
	}
	if n := len(r.Repositories[repository].Secrets); n != 100 {
		t.Errorf("%d secrets kept", n)
	}
	if ok, _ := r.Allows(repository, []credentials.Credential{from(t, "x", "x", "pw249")}); !ok {
		t.Error("the newest is forgotten")
	}
}

// afterLoad does something once, right after a record was looked for.
type afterLoad struct {
	pullrecords.Store
	then func()
}

func (s *afterLoad) Load(id string) (*pullrecords.Record, error) {
	r, err := s.Store.Load(id)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return r, err
}

// spec/runtime.md 9.9: a pull that ends between the looks for its record and for its intent does not make
// the image look preloaded.
func TestPullThatEndsDuringALookIsSeen(t *testing.T) {
	b := newBench(t, pullrecords.Policy{})
	store := &afterLoad{Store: b.store}
	b.store = store
	b.restart(pullrecords.Policy{})
	a, p := from(t, "a", "1", "pw"), b.begin()
	store.then = func() { p.End(pullrecords.Outcome{ID: id, By: &a}) }
	if b.may() {
		t.Error("9.9: usable without the secret it was pulled with")
	}
	if !b.may(a) {
		t.Error("9.9: not usable with the secret")
	}
}

// spec/runtime.md 9.9: a runtime that has just started and lists no image yet makes no private image usable for all.
func TestIntentOutlivesARuntimeThatListsNothing(t *testing.T) {
	b := newBench(t, pullrecords.Policy{})
	b.begin()
	b.restart(pullrecords.Policy{})
	for range 3 {
		b.prune(&images{})
	}
	if b.may() || b.intents() != 1 {
		t.Errorf("%d intents: the image is usable once it is listed", b.intents())
	}
	for range 2 {
		b.prune(&images{ids: map[string]bool{"x": true}})
	}
	if b.intents() != 0 {
		t.Error("the intent for an image that never came is still there")
	}
}
