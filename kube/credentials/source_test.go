package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// world is a source whose plugins are functions, and the API server's part.
type world struct {
	t      *testing.T
	source *Source

	mu       sync.Mutex
	requests []kubeletv1.CredentialProviderRequest
	// answer is what plugins say; nil: user and password are the name of the plugin.
	answer  func(ctx context.Context, plugin string, r kubeletv1.CredentialProviderRequest) (string, error)
	account v1.ServiceAccount
	tokens  int
	failing error // of the API server
	// tokenless is why the API server gives no token, while it gives accounts.
	tokenless error
}

func newWorld(t *testing.T, config string) *world {
	t.Helper()
	r := newRig(t)
	for _, name := range []string{"a", "b"} {
		r.write(name, "#!/bin/sh\n", 0o755)
	}
	r.write("config", config, 0o600)
	w := &world{t: t, account: v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "sa-1"}}}
	o := r.options()
	o.Tokens, o.Accounts = w, w
	var err error
	if w.source, err = New(o); err != nil {
		t.Fatal(err)
	}
	w.source.execute = w.execute
	return w
}

// Token implements [pods.TokenSource].
func (w *world) Token(_ context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens++
	return fmt.Sprintf("%s for %s of %s", p.Audience, pod.Spec.ServiceAccountName, pod.UID), errors.Join(w.failing, w.tokenless)
}

// ServiceAccount implements [Accounts].
func (w *world) ServiceAccount(context.Context, string, string) (*v1.ServiceAccount, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.account.DeepCopy(), w.failing
}

func (w *world) execute(ctx context.Context, c command) (output, error) {
	var r kubeletv1.CredentialProviderRequest
	if err := json.Unmarshal(c.stdin, &r); err != nil {
		return output{}, err
	}
	w.mu.Lock()
	w.requests = append(w.requests, r)
	answer := w.answer
	w.mu.Unlock()
	plugin := c.file[strings.LastIndexByte(c.file, '/')+1:]
	if answer == nil {
		return output{stdout: []byte(said1("Image", "", `"reg.io":`+login(plugin)))}, nil
	}
	text, err := answer(ctx, plugin, r)
	return output{stdout: []byte(text)}, err
}

// said1 is an answer; duration may be empty.
func said1(scope, duration, auth string) string {
	if duration != "" {
		duration = `"cacheDuration":"` + duration + `",`
	}
	return `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"` + scope + `",` + duration + `"auth":{` + auth + `}}`
}

func login(name string) string { return fmt.Sprintf(`{"username":%q,"password":%q}`, name, "of "+name) }

// says has all plugins answer so, with the number of the run as the user.
func (w *world) says(scope, duration string) {
	runs := 0
	w.answer = func(context.Context, string, kubeletv1.CredentialProviderRequest) (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		runs++
		return said1(scope, duration, `"reg.io":`+login(fmt.Sprint("run", runs))+`,"*.example:5000":`+login(fmt.Sprint("run", runs))), nil
	}
}

func podOf(uid types.UID, account string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uid), UID: uid}, Spec: v1.PodSpec{ServiceAccountName: account}}
}

// users are who an image may be pulled as, with the service account behind an @.
func (w *world) users(pod *v1.Pod, image string) (string, error) {
	found, err := w.source.Credentials(w.t.Context(), pod, image)
	var out []string
	for _, c := range found {
		user := c.Username
		if c.ServiceAccount != "" {
			user += "@" + string(c.ServiceAccount)
		}
		out = append(out, user)
	}
	return strings.Join(out, " "), err
}

func (w *world) want(pod *v1.Pod, image, want string) {
	w.t.Helper()
	if got, err := w.users(pod, image); got != want || err != nil {
		w.t.Errorf("%s: %q, %v; want %q", image, got, err, want)
	}
}

func (w *world) runs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.requests)
}

func pass(d time.Duration) { <-time.After(d) }

// KG3: a plugin is run for the images of its configuration, told their repository, and what it says
// counts for images that match its keys; longer keys come first, then the order of the plugins.
func TestPluginsAreRunForTheirImages(t *testing.T) {
	w := newWorld(t, head+one("b")+one("a"))
	w.answer = func(_ context.Context, plugin string, _ kubeletv1.CredentialProviderRequest) (string, error) {
		return said1("Image", "0s", `"https://reg.io/v2/":`+login(plugin)+`,"reg.io/team":`+login(plugin+"-team")+`,"x.example:5000":`+login(plugin+"-x")), nil
	}
	pod := podOf("p", "")
	w.want(pod, "reg.io/app:1", "b a")
	w.want(pod, "reg.io/team/app@sha256:0", "b-team a-team b a")
	w.want(pod, "x.example:5000/team/app", "b-x a-x")
	asked := w.runs()
	for _, image := range []string{"x.example/team/app", "x.example:5000/other", "x.y.example:5000/team", "nginx", "reg.io:80/app"} {
		w.want(pod, image, "")
	}
	if w.runs() != asked {
		t.Errorf("a plugin was run for others: %v", w.requests[asked:])
	}
	want := kubeletv1.CredentialProviderRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "credentialprovider.kubelet.k8s.io/v1", Kind: "CredentialProviderRequest"}, Image: "reg.io/app",
	}
	if diff := cmp.Diff(want, w.requests[0]); diff != "" {
		t.Error(diff)
	}
}

// KG5: an answer is kept for its image, registry or all, as long as it says, or else the
// configuration.
func TestAnswersAreKept(t *testing.T) {
	for _, tc := range []struct {
		scope, duration string
		want            string // after how many runs each of the steps below has its answer
	}{
		{"Image", "", "1 1 2 3 4 6"},
		{"Registry", "", "1 1 1 2 2 3"},
		{"Global", "", "1 1 1 1 1 2"},
		{"Global", "0s", "1 2 3 4 5 6"},
		{"Global", "-1s", "1 2 3 4 5 6"},
		{"Global", "1h", "1 1 1 1 1 1"},
		{"Registry", "1m", "1 1 1 2 2 3"},
	} {
		t.Run(tc.scope+tc.duration, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, head+one("a"))
				w.says(tc.scope, tc.duration)
				var got []string
				for _, image := range []string{"reg.io/app:1", "reg.io/app:2", "reg.io/other", "a.example:5000/team", "a.example:5000/team/app"} {
					if _, err := w.users(podOf("p", ""), image); err != nil {
						t.Fatal(err)
					}
					got = append(got, fmt.Sprint(w.runs()))
				}
				pass(10 * time.Minute) // defaultCacheDuration
				if tc.scope == "Image" {
					w.want(podOf("p", ""), "reg.io/other", "run5")
				}
				w.want(podOf("p", ""), "reg.io/app:1", fmt.Sprint("run", tc.want[len(tc.want)-1:]))
				if got = append(got, fmt.Sprint(w.runs())); strings.Join(got, " ") != tc.want {
					t.Errorf("runs %v, want %s", got, tc.want)
				}
			})
		})
	}
}

// KG5: what is kept for an image counts before what is kept for its registry, and that before what is
// kept for all.
func TestNarrowestAnswerCounts(t *testing.T) {
	w := newWorld(t, head+one("a"))
	for _, kept := range []struct{ scope, image string }{{"Image", "reg.io/app"}, {"Registry", "reg.io/other"}, {"Global", "a.example:5000/team"}} {
		w.answer = func(context.Context, string, kubeletv1.CredentialProviderRequest) (string, error) {
			return said1(kept.scope, "1h", `"reg.io":`+login(kept.scope)+`,"*.example:5000":`+login(kept.scope)), nil
		}
		w.want(podOf("p", ""), kept.image, kept.scope)
	}
	for range 20 {
		for image, scope := range map[string]string{"reg.io/app": "Image", "reg.io/more": "Registry", "b.example:5000/team": "Global"} {
			w.want(podOf("p", ""), image, scope)
		}
	}
}

// KG5: what is kept is bounded: what was not used for the longest goes first.
func TestKeptAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, head+one("a"))
		w.says("Image", "24h")
		pod := podOf("p", "")
		for i := range mostKept {
			w.want(pod, fmt.Sprintf("reg.io/app%d", i), fmt.Sprint("run", i+1))
			pass(time.Second)
		}
		w.want(pod, "reg.io/app0", "run1")
		w.want(pod, "reg.io/more", fmt.Sprint("run", mostKept+1))
		w.want(pod, "reg.io/app0", "run1")
		w.want(pod, "reg.io/app1", fmt.Sprint("run", mostKept+2))
		if n := len(w.source.answers.answers); n != mostKept {
			t.Errorf("%d are kept", n)
		}
		if n := len(w.source.answers.topics); n != 0 {
			t.Errorf("%d topics are left", n)
		}
		pass(24 * time.Hour)
		w.want(pod, "reg.io/app0", fmt.Sprint("run", mostKept+3))
		if n := len(w.source.answers.answers); n != 1 {
			t.Errorf("%d are kept after they have expired", n)
		}
	})
}

// KG4: pods that ask about one image at once share one run, kept or not; images of one registry
// that wait for their turn take what the first has brought.
func TestOneRunServesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, head+one("a"))
		most, now := 0, 0
		w.answer = func(context.Context, string, kubeletv1.CredentialProviderRequest) (string, error) {
			w.mu.Lock()
			now++
			most = max(most, now)
			w.mu.Unlock()
			pass(time.Second)
			w.mu.Lock()
			now--
			w.mu.Unlock()
			return said1("Registry", "0s", `"reg.io":`+login("u")), nil
		}
		ask := func(image func(i int) string) {
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() { w.want(podOf(types.UID(fmt.Sprint("p", i)), ""), image(i), "u") })
			}
			all.Wait()
		}
		ask(func(int) string { return "reg.io/app" })
		if n := w.runs(); n != 1 {
			t.Errorf("%d runs for one image", n)
		}
		ask(func(i int) string { return fmt.Sprintf("reg.io/app%d", i) })
		if n := w.runs() - 1; n != 100 || most != parallel {
			t.Errorf("%d runs for 100 images that are not kept, %d at once", n, most)
		}
		w.answer = func(context.Context, string, kubeletv1.CredentialProviderRequest) (string, error) {
			pass(time.Second)
			return said1("Registry", "1h", `"reg.io":`+login("u")), nil
		}
		ask(func(i int) string { return fmt.Sprintf("reg.io/app%d", i) })
		if n := w.runs() - 101; n != parallel {
			t.Errorf("%d runs for one registry", n)
		}
	})
}

// KG4: a caller that gives up ends the run; others that wait have it made again.
func TestGivingUpEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, head+one("a"))
		w.answer = func(ctx context.Context, _ string, _ kubeletv1.CredentialProviderRequest) (string, error) {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(10 * time.Second):
				return said1("Image", "1h", `"reg.io":`+login("u")), nil
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := w.source.Credentials(ctx, podOf("p", ""), "reg.io/app"); !errors.Is(err, context.Canceled) {
				t.Errorf("given up: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() { w.want(podOf("q", ""), "reg.io/app", "u") })
		synctest.Wait()
		cancel()
		all.Wait()
		if n := w.runs(); n != 2 {
			t.Errorf("%d runs", n)
		}
	})
}

// KG7: a plugin that fails is not run hot; its error is given meanwhile. What others say counts.
func TestFailingPluginIsNotRunHot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, head+one("a")+one("b"))
		bad := true
		w.answer = func(_ context.Context, plugin string, _ kubeletv1.CredentialProviderRequest) (string, error) {
			if plugin == "a" && bad {
				return "", errors.New("exit status 1")
			}
			return said1("Image", "24h", `"reg.io":`+login(plugin)), nil
		}
		pod := podOf("p", "")
		for range 600 {
			if got, err := w.users(pod, "reg.io/app"); got != "b" || err == nil || err.Error() != `credential plugin "a": exit status 1` {
				t.Fatalf("%q, %v", got, err)
			}
			pass(time.Second)
		}
		if n := w.runs(); n != 25 { // 1, 2, 4, 8, 16, then every 30 s; and one of b
			t.Errorf("%d runs in 10 min", n)
		}
		bad = false
		pass(30 * time.Second)
		w.want(pod, "reg.io/app", "a b")
		bad = true
		for i := range 2 * mostKept {
			_, _ = w.users(pod, fmt.Sprintf("reg.io/app%d", i))
		}
		if n := len(w.source.answers.topics); n > mostKept {
			t.Errorf("%d failures are remembered", n)
		}
	})
}

// KG7: whose credential a plugin fails to give is known, also if it gets no token.
func TestFailingPluginTellsTheAccount(t *testing.T) {
	for _, kept := range []string{"ServiceAccount", "Token"} {
		for _, tokenless := range []error{nil, errors.New("the API server is away")} {
			w := newWorld(t, head+one("a", tokens, "    cacheType: "+kept+"\n    requireServiceAccount: false\n"))
			w.tokenless = tokenless
			w.answer = func(context.Context, string, kubeletv1.CredentialProviderRequest) (string, error) {
				return "", errors.New("exit status 1")
			}
			for account, want := range map[string]string{"robot": "@sa-1", "": ""} {
				if got, err := w.users(podOf("p", account), "reg.io/app"); got != want || err == nil {
					t.Errorf("KG7: kept for the %s, tokens: %v, account %q: %q, %v; want %q", kept, tokenless, account, got, err, want)
				}
			}
		}
	}
}

// KG4: a plugin has a minute.
func TestPluginHasAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, head+one("a"))
		w.answer = func(ctx context.Context, _ string, _ kubeletv1.CredentialProviderRequest) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		began := time.Now()
		_, err := w.users(podOf("p", ""), "reg.io/app")
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "killed after 1m0s") || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// KG6: a plugin that asks for it gets a token of the pod's service account, for its audience, and the
// annotations it names; what it says is the service account's. It is kept for the account or for the token.
func TestTokensReachPlugins(t *testing.T) {
	const keys = "    optionalServiceAccountAnnotationKeys: [tenant, none]\n"
	for _, tc := range []struct {
		name, rules string
		// runs after two pods of one account, one of its next life, one with other annotations, and one
		// without an account.
		want string
		// tokens is how many were asked for.
		tokens int
		last   string
	}{
		{"account", "    cacheType: ServiceAccount\n    requireServiceAccount: false\n", "1 1 2 3 4", 3, "run4"},
		{"token", "    cacheType: Token\n    requireServiceAccount: false\n", "1 2 3 4 5", 4, "run5"},
		{"needed", "    cacheType: ServiceAccount\n    requireServiceAccount: true\n    requiredServiceAccountAnnotationKeys: [role]\n", "1 1 2 3 3", 3, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, head+one("a", tokens, tc.rules, keys))
			w.says("Global", "1h")
			w.account.Annotations = map[string]string{"tenant": "blue", "role": "r", "secret": "no"}
			var got []string
			ask := func(uid types.UID, account, user string) {
				t.Helper()
				if user != "" {
					w.want(podOf(uid, account), "reg.io/app", user)
				} else {
					w.want(podOf(uid, account), "reg.io/app", tc.last)
				}
				got = append(got, fmt.Sprint(w.runs()))
			}
			second := "run1@sa-1"
			if tc.name == "token" {
				second = "run2@sa-1"
			}
			next := func() string { return fmt.Sprintf("run%d@%s", w.runs()+1, w.account.UID) }
			ask("one", "robot", next())
			ask("two", "robot", second)
			w.account.UID = "sa-2"
			ask("three", "robot", next())
			w.account.Annotations["tenant"] = "red"
			w.account.Annotations["secret"] = "yes"
			ask("four", "robot", next())
			ask("static", "", "")
			if strings.Join(got, " ") != tc.want || w.tokens != tc.tokens {
				t.Errorf("runs %v, want %s; %d tokens", got, tc.want, w.tokens)
			}
			first := w.requests[0]
			want := map[string]string{"tenant": "blue"}
			if tc.name == "needed" {
				want["role"] = "r"
			}
			if diff := cmp.Diff(want, first.ServiceAccountAnnotations); diff != "" || first.ServiceAccountToken != "registry for robot of one" {
				t.Errorf("%q, %s", first.ServiceAccountToken, diff)
			}
		})
	}
}

// KG6: what is kept for a token, and what is not kept at all, reaches no other pod, also of those that
// ask at once.
func TestAnswersForTokensAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, head+one("a", tokens, "    cacheType: ServiceAccount\n    requireServiceAccount: true\n"))
		w.answer = func(_ context.Context, _ string, r kubeletv1.CredentialProviderRequest) (string, error) {
			pass(time.Second)
			return said1("Global", "0s", `"reg.io":`+login(r.ServiceAccountToken)), nil
		}
		var all sync.WaitGroup
		for i := range 5 {
			uid := types.UID(fmt.Sprint("p", i))
			all.Go(func() { w.want(podOf(uid, "robot"), "reg.io/app", "registry for robot of "+string(uid)+"@sa-1") })
		}
		all.Wait()
	})
}

// KG6: without what a plugin needs it is not run, and the reason is told.
func TestMissingIdentityIsTold(t *testing.T) {
	w := newWorld(t, head+one("a", tokens, "    cacheType: Token\n    requireServiceAccount: true\n    requiredServiceAccountAnnotationKeys: [example.com/role]\n"))
	for _, want := range []string{`has no annotation "example.com/role"`, "connection refused"} {
		if got, err := w.users(podOf("p", "robot"), "reg.io/app"); got != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		w.failing = errors.New("connection refused")
	}
	if w.runs() != 0 {
		t.Errorf("run all the same: %v", w.requests)
	}
}

// KG3: an answer that is none is an error without its content.
func TestBadAnswersAreRefused(t *testing.T) {
	good := said1("Image", "", `"reg.io":`+login("u"))
	p := &provider{apiVersion: pluginGroup + newest, life: time.Minute}
	for text, want := range map[string]string{
		"":                                      "no JSON",
		"hunter2":                               "no JSON",
		`{"auth":{"reg.io":{"password":4711}}}`: "no JSON",
		strings.Replace(good, "CredentialProviderResponse", "hunter2", 1):          "not of the kind",
		strings.Replace(good, "k8s.io/v1", "hunter2", 1):                           "not of the kind",
		strings.Replace(good, `"Image"`, `"hunter2"`, 1):                           "cacheKeyType",
		strings.Replace(good, `"Image",`, `"Image","cacheDuration":"hunter2",`, 1): "no JSON",
	} {
		_, err := parseAnswer(p, []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	got, err := parseAnswer(p, []byte(strings.Replace(good, `"auth":{`, `"auth":null,"more":{`, 1)))
	if err != nil || len(got.auth) != 0 || got.life != time.Minute {
		t.Errorf("no credentials: %v, %v", got, err)
	}
}
