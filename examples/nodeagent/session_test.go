package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recordedSteps finds the commands of the page for operators, and what each prints.
var recordedSteps = regexp.MustCompile(`(?m)^(?:\^C)?\$ (.*)\n((?:[^$^\n].*\n|\n)*)`)

// masks are what differs between two sessions that are the same, and what stands for it.
var masks = []struct{ what, by string }{
	{`/[^ :;\n]*/(manifests|nodeagent\.sock)`, "/HOME/$1"},
	{`\b[0-9a-f]{32}\b`, "UID"},
	{`[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \w+ \d{4}`, "DATE"},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\b\d\d:\d\d:\d\d\b`, "TIME"},
	{`\b(\d+m)?\d+s\b|\b\d+m\b|\b\d+ s of 15 s\b`, "SECONDS"},
	{`\d+ \(SECONDS ago\)|restarts \d+|\d+ in a row| \(x\d+ over SECONDS\)`, "MANY"},
	{`(?m)(^ +TIME +setup to setup: .*\n?)+`, "  TIME setup to setup\n"},
	{`(?m)^waiting for .*\n?`, ""}, // a drain may be too quick for it
	{` +`, " "},
	{`(?m)^(\S+ \S+) 0/1 Terminating .*\n`, ""}, // that its container has ended is seen before the pod is gone, or not
	{`\b[01]/1 Gone`, "READY Gone"},
}

func masked(text string) string {
	for _, m := range masks {
		text = regexp.MustCompile(m.what).ReplaceAllString(text, m.by)
	}
	return strings.TrimSpace(text)
}

// TestSession runs the session of the page again, in a shell, and compares what is printed but
// for times and IDs. On a slow machine a pod may have stopped before a command looks at it, so a
// session that is not as recorded is played again.
func TestSession(t *testing.T) {
	t.Parallel()
	_ = os.Getenv("PODWRIGHT_DOCS") // the result is not remembered if tools/ci sees other pages
	page, err := os.ReadFile("../../docs/guide/nodeagent.md")
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(string(page), "## One session")
	_, session, _ = strings.Cut(session, "```\n")
	session, _, _ = strings.Cut(session, "```\n")
	steps := recordedSteps.FindAllStringSubmatch(session, -1)
	if len(steps) < 15 {
		t.Errorf("the session has %d commands", len(steps))
	}
	const tries = 3
	for try := range tries {
		p := play{t: t, home: sessionHome(t)}
		err := p.session(steps)
		p.end()
		if err == nil {
			return
		}
		t.Logf("session %d of %d: %v", try+1, tries, err)
	}
	t.Error("no session is as the page has it")
}

// sessionHome makes the folders that the session begins with; nodeagent is this test binary.
func sessionHome(t *testing.T) string {
	home, asRoot := shortDir(t), ""
	self, err := os.Executable()
	if os.Geteuid() == 0 {
		asRoot = `[ "$1" != run ] || { shift; set -- run --process-as-root "$@"; }`
	}
	files := map[string]string{
		"bin/nodeagent":      fmt.Sprintf("#!/bin/sh\n%s\n%s=1 exec %s \"$@\"\n", asRoot, asAgent, self),
		"manifests/web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
	}
	for _, name := range []string{"clock", "crashloop", "pair", "slowstop"} {
		text, reading := os.ReadFile("../manifests/" + name + ".yaml")
		files["manifests/"+name+".yaml"] = strings.ReplaceAll(string(text), "sleep 4;", "sleep 12;") // time to look
		err = errors.Join(err, reading)
	}
	for name, text := range files {
		path := filepath.Join(home, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	return home
}
