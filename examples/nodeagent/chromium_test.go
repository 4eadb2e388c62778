//go:build chromium

package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
)

// browser is one tab of a headless Chromium, driven by the Chrome DevTools Protocol.
type browser struct {
	t       *testing.T
	conn    *websocket.Conn
	session string
	last    int
	// complaints are exceptions and errors of the page's console, such as a violation of its policy.
	complaints []string
}

var devTools = regexp.MustCompile(`DevTools listening on (ws://\S+)`)

// startBrowser starts a Chromium with an empty profile.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium: ", err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--lang=en-GB", "--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), "about:blank")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(found)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := devTools.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		reading.Wait()
		_ = cmd.Wait()
	})
	address, ok := <-found
	if !ok {
		t.Fatal("chromium ended at once")
	}
	conn, response, err := websocket.DefaultDialer.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	b := &browser{t: t, conn: conn}
	t.Cleanup(func() {
		var ignored json.RawMessage
		_ = b.try("Browser.close", nil, &ignored) // the whole tree of its processes, which write to the profile
		_ = conn.Close()
	})
	var target struct{ TargetID, SessionID string }
	b.do("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.do(domain+".enable", nil, nil)
	}
	return b
}

// message is what the browser sends: an answer, or an event.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

// do sends a command and decodes its result.
func (b *browser) do(method string, params, result any) {
	b.t.Helper()
	if err := b.try(method, params, result); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

func (b *browser) try(method string, params, result any) error {
	b.last++
	command := map[string]any{"id": b.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" && !strings.HasPrefix(method, "Browser.") {
		command["sessionId"] = b.session
	}
	if err := b.conn.WriteJSON(command); err != nil {
		return err
	}
	for {
		var m message
		if err := b.conn.ReadJSON(&m); err != nil {
			return err
		}
		b.note(&m)
		switch {
		case m.ID != b.last:
			continue
		case m.Error != nil:
			return fmt.Errorf("%s", m.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	}
}

// note keeps the complaints of the page.
func (b *browser) note(m *message) {
	var entry struct{ Entry struct{ Level, Text string } }
	switch m.Method {
	case "Runtime.exceptionThrown":
		b.complaints = append(b.complaints, string(m.Params))
	case "Log.entryAdded":
		if json.Unmarshal(m.Params, &entry) == nil && entry.Entry.Level == "error" {
			b.complaints = append(b.complaints, entry.Entry.Text)
		}
	}
}

// eval returns what an expression of the page is, as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	b.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, out.ExceptionDetails.Text)
	}
	return fmt.Sprint(out.Result.Value)
}

// awaits polls until an expression of the page is true.
func (b *browser) awaits(expression string) {
	b.t.Helper()
	await(b.t, expression, func() error {
		if got := b.eval(expression); got != "true" {
			return fmt.Errorf("it is %s; the page says:\n%s\n%q", got, b.eval("document.body?.innerText"), b.complaints)
		}
		return nil
	})
}

// press presses a key.
func (b *browser) press(key string, code int) {
	b.t.Helper()
	text := ""
	if key == "Enter" {
		text = "\r"
	}
	b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}, nil)
	b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
}

// size makes the window a screen of this size, light or dark.
func (b *browser) size(width, height int, scheme string) {
	b.t.Helper()
	b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// screenshot is what the window shows, as a PNG.
func (b *browser) screenshot() []byte {
	b.t.Helper()
	var out struct{ Data string }
	b.do("Page.captureScreenshot", map[string]any{"format": "png"}, &out)
	png, err := base64.StdEncoding.DecodeString(out.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}
