package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// KH3, KH8: options reach the engine, problems have the kubelet's codes.
func TestContainerLogs(t *testing.T) {
	r := newRig(t, nil)
	var got containerlog.Options
	r.engine.log = func(_ context.Context, options containerlog.Options, w io.Writer) error {
		if got = options; options.Previous {
			return errors.New(`previous terminated container "app" in pod "web" not found`)
		}
		_, err := io.WriteString(w, "a line\n")
		return err
	}
	const base = "/containerLogs/default/web/app"
	for _, tc := range []struct {
		path string
		code int
		body string
	}{
		{base, http.StatusOK, "a line"},
		{base + "?follow=true&tailLines=5&limitBytes=100&timestamps=true&stream=Stderr&sinceSeconds=60", http.StatusOK, "a line"},
		{base + "?sinceTime=2026-01-02T03:04:05Z&stream=All&follow=false&x=y", http.StatusOK, "a line"},
		{base + "?sinceTime=yesterday", http.StatusBadRequest, "sinceTime"},
		{base + "?previous=true", http.StatusBadRequest, "previous terminated container"},
		{base + "?tailLines=x", http.StatusBadRequest, "Unable to decode query"},
		{base + "?tailLines=-1", http.StatusUnprocessableEntity, "tailLines"},
		{base + "?limitBytes=0", http.StatusUnprocessableEntity, "limitBytes"},
		{base + "?stream=both", http.StatusUnprocessableEntity, "stream"},
		{base + "?sinceSeconds=0", http.StatusUnprocessableEntity, "sinceSeconds"},
		{base + "?sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", http.StatusUnprocessableEntity, "at most one"},
		{"/containerLogs/default/web/typo", http.StatusNotFound, `container "typo" not found in pod "web_default"`},
		{"/containerLogs/default/typo/app", http.StatusNotFound, `pod "typo_default" does not exist`},
		{"/containerLogs/default/web", http.StatusNotFound, "not found"},
		{"/containerLogs/default/web/..%2F..", http.StatusNotFound, "not found"},
	} {
		if code, body := r.get(tc.path, "good"); code != tc.code || !strings.Contains(body, tc.body) {
			t.Errorf("%s: %d %q, want %d %q", tc.path, code, body, tc.code, tc.body)
		}
		if strings.Contains(tc.path, "Stderr") {
			if !got.Follow || *got.Tail != 5 || *got.LimitBytes != 100 || !got.Timestamps || got.Stream != containerlog.Stderr ||
				!got.Since.Equal(r.clock.Now().Add(-time.Minute)) {
				t.Errorf("options %+v", got)
			}
		}
	}
	huge, err := logOptions(url.Values{"sinceSeconds": {"9223372036854775807"}}, r.clock.Now())
	if err != nil || huge.Since.After(r.clock.Now()) {
		t.Errorf("a huge number of seconds: %v, %v", huge.Since, err)
	}
}

// KH6: a log that is followed arrives line by line and ends with the server; so does
// its reading when the client goes.
func TestFollowedLogEnds(t *testing.T) {
	r := newRig(t, nil)
	ended := make(chan error, 2)
	r.engine.log = func(ctx context.Context, _ containerlog.Options, w io.Writer) error {
		_, err := io.WriteString(w, "first\n")
		if err == nil {
			<-ctx.Done()
			err = context.Cause(ctx)
		}
		ended <- err
		return err
	}
	open := func() *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.address+"/containerLogs/default/web/app?follow=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer good")
		response, err := r.client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(response.Body).ReadString('\n'); line != "first\n" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		return response
	}
	_ = open().Body.Close()
	<-ended
	response := open()
	defer response.Body.Close()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	<-ended
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("the client takes the cut log for a whole one")
	}
}
