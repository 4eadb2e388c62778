//go:build chromium

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
)

var screenshots = flag.String("web.screenshots", "", "folder for screenshots of the page")

const probedManifest = `apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  containers:
  - name: main
    image: host
    command: [sh, -c, "while :; do echo tick $((i=i+1)); sleep 1; done"]
    env: [{name: PASSWORD, value: s3cr3t-value}]
    readinessProbe: {exec: {command: [sh, -c, "test $(( $(date +%s) / 8 % 2 )) = 0"]}, periodSeconds: 2, failureThreshold: 1}
  - name: helper
    image: host
    command: [sh, -c, "exec sleep 10000"]
`

// measuring stands for a runtime that can measure, which the process runtime cannot: each answer has the samples of two minutes.
const measuring = `{
  const real = window.fetch;
  let at = Date.parse('2026-01-01'), cpu = 0;
  const sample = () => ({ name: 'main', at: new Date(at += 5000).toISOString(), cpu: cpu += 1e9 * (1.5 + Math.sin(at / 2e4)), memory: 2e7 + 1e6 * (at / 5000 % 17) });
  window.fetch = (path, options) => String(path).startsWith('api/usage/') ? Promise.resolve(new Response(JSON.stringify(Array.from({ length: 24 }, sample)))) : real(path, options);
}`

// TestPageInBrowser: a real browser shows the pods; keyboard and mouse open one with its timeline and log; a phone need not scroll sideways;
// the page keeps to its own policy.
func TestPageInBrowser(t *testing.T) {
	manifests := t.TempDir()
	writeManifest(t, manifests, "probed.yaml", probedManifest)
	writeManifest(t, manifests, "crash.yaml", pod("crash", "host", "echo cannot open the database; sleep 2; exit 3"))
	writeManifest(t, manifests, "bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: []}\n")
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain", "--web", "127.0.0.1:0")
	a.awaitPhase("probed", v1.PodRunning)
	a.awaitPod("crash", "two restarts", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount >= 2
	})
	code, link, problems := a.tells("web")
	if code != 0 {
		t.Fatalf("web: %d %s", code, problems)
	}
	b := startBrowser(t)
	b.size(1100, 760, "light")
	b.do("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": measuring}, nil)
	b.do("Page.navigate", map[string]any{"url": strings.TrimSpace(link)}, nil)
	b.awaits(`[...document.querySelectorAll('#pods tbody a')].map(a => a.textContent).join() === 'crash-n1,probed-n1'`)
	b.awaits(`document.getElementById('refused').textContent.includes('bad.yaml')`)
	if got := b.eval("location.href + history.length"); strings.Contains(got, "token") {
		t.Errorf("the address keeps the token: %s", got)
	}

	b.press("ArrowDown", 40)
	b.press("Enter", 13)
	b.awaits(`document.getElementById('podTitle').textContent === 'crash-n1' && !document.getElementById('pod').hidden`)
	b.awaits(`document.querySelectorAll('#timeline rect.failed').length > 0 && document.querySelectorAll('#timeline rect.running, #timeline rect.ready').length > 1`)
	b.awaits(`/engine.*setup/.test(document.getElementById('timeline').textContent)`)
	b.awaits(`document.getElementById('log').textContent.includes('cannot open the database')`)
	b.awaits(`/CrashLoopBackOff/.test(document.getElementById('podSays').textContent)`)
	b.shoot("light")
	b.eval(`document.getElementById('stepsPart').open = true`)
	b.awaits(`/main: failed, code 3/.test(document.getElementById('steps').textContent)`)
	b.press("Escape", 27)
	b.awaits(`document.getElementById('pod').hidden && document.activeElement.textContent === 'crash-n1'`)

	b.eval(`[...document.querySelectorAll('#pods tbody a')][1].click()`)
	b.awaits(`[...document.querySelectorAll('#container option')].map(o => o.value).join() === 'helper,main'`)
	b.eval(`document.getElementById('container').value = 'main'; document.getElementById('container').dispatchEvent(new Event('change'))`)
	b.awaits(`document.getElementById('log').textContent.includes('tick')`)
	before := b.eval(`document.getElementById('log').textContent.length`)
	b.awaits(`document.getElementById('log').textContent.length > ` + before) // it follows
	b.awaits(`document.getElementById('probes').textContent.includes('main readiness')`)
	b.awaits(`document.querySelectorAll('#timeline .mark').length > 0`)
	b.awaits(`document.querySelectorAll('.spark polyline').length === 2 && /CPU [0-9]+m.*memory [0-9.]+ MiB/.test(document.getElementById('usage').textContent)`)
	b.eval(`document.getElementById('cleanup').open = true`)
	b.awaits(`/Nothing would be.*What stays, and why.*the pod runs/.test(document.getElementById('plan').textContent)`)
	b.eval(`document.getElementById('stepsPart').open = false`)
	b.size(1100, 760, "dark")
	b.shoot("dark")

	const fits = `document.documentElement.scrollWidth <= innerWidth && innerWidth === 360`
	b.size(360, 740, "light")
	b.awaits(fits)
	b.shoot("phone")
	b.press("Escape", 27)
	b.awaits(`document.getElementById('pod').hidden`)
	b.awaits(fits)
	if text := b.eval("document.documentElement.outerHTML"); strings.Contains(text, "s3cr3t-value") {
		t.Error("the page has the value of a variable")
	}

	b.do("Page.navigate", map[string]any{"url": "about:blank"}, nil)
	writeManifest(t, manifests, "crash.yaml", pod("other", "host", "exec sleep 1000"))
	b.do("Page.navigate", map[string]any{"url": strings.Split(link, "#")[0]}, nil) // the tab knows the token
	b.awaits(`document.getElementById('pods')?.textContent.includes('other-n1')`)
	if len(b.complaints) > 0 {
		t.Errorf("the browser complains: %q", b.complaints)
	}
	b.eval(`sessionStorage.setItem('token', 'wrong'); location.reload()`)
	b.awaits(`document.getElementById('door')?.hidden === false && document.getElementById('doorWhy').textContent.includes('token is missing or wrong')`)
}

// TestHungAgentInBrowser: a page whose agent sends nothing any more says so, although the connection stays open, and goes on once
// the agent does.
func TestHungAgentInBrowser(t *testing.T) {
	manifests := t.TempDir()
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "while :; do echo tick $((i=i+1)); sleep 1; done"))
	a := startAgent(t, "--manifests", manifests, "--root", t.TempDir(), "--drain", "--web", "127.0.0.1:0")
	a.awaitPhase("web", v1.PodRunning)
	code, link, problems := a.tells("web")
	if code != 0 {
		t.Fatalf("web: %d %s", code, problems)
	}
	b := startBrowser(t)
	b.do("Page.navigate", map[string]any{"url": strings.TrimSpace(link)}, nil)
	b.awaits(`document.getElementById('pods')?.textContent.includes('web-n1')`)
	b.eval(`document.querySelector('#pods tbody a').click()`)
	b.awaits(`document.getElementById('log').textContent.includes('tick')`)
	b.awaits(`document.getElementById('link').textContent === 'live' && document.getElementById('link').className === ''`)
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.cmd.Process.Signal(syscall.SIGCONT) }() // so that it can be drained
	b.awaits(`document.getElementById('link').className === 'lost' && document.getElementById('link').textContent.includes('does not answer')`)
	b.awaits(`document.getElementById('logSays').textContent === 'the agent does not answer'`)
	b.awaits(`document.getElementById('podSays').textContent === 'the agent does not answer'`)
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.awaits(`document.getElementById('link').textContent === 'live' && document.getElementById('link').className === ''`)
	b.awaits(`document.getElementById('logSays').textContent === 'following' && document.getElementById('podSays').textContent.includes('Running')`)
	before := b.eval(`document.getElementById('log').textContent.length`)
	b.awaits(`document.getElementById('log').textContent.length > ` + before) // it follows
}

// shoot keeps a screenshot if some are wanted.
func (b *browser) shoot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*screenshots, "page-"+name+".png"), b.screenshot(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}
