package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop/source"
	"github.com/podwright/podwright/syncloop/source/sourcetest"
)

// conforms runs the kit in virtual time.
func conforms(t *testing.T, factory sourcetest.Factory) {
	t.Helper()
	for _, c := range sourcetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, factory) })
		})
	}
}

func TestChannelConforms(t *testing.T) {
	conforms(t, func(*testing.T) sourcetest.Subject {
		s := source.NewChannel(source.ChannelOptions{NodeName: "n1"})
		return sourcetest.Subject{Source: s, Set: func(ctx context.Context, pods ...*v1.Pod) error { return s.Set(ctx, pods) }}
	})
}

// The folder is a link. The test breaks it by making it a link to itself.
func TestFileConforms(t *testing.T) {
	conforms(t, func(t *testing.T) sourcetest.Subject {
		target := t.TempDir()
		dir := filepath.Join(t.TempDir(), "manifests")
		point := func(to string) error {
			return errors.Join(os.Symlink(to, dir+".new"), os.Rename(dir+".new", dir)) // atomic
		}
		if err := point(target); err != nil {
			t.Fatal(err)
		}
		s, err := source.NewFile(dir, "n1", source.FileOptions{Period: time.Second, PollOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		good := map[string][]byte{}
		return sourcetest.Subject{
			Source: s,
			Set: func(_ context.Context, pods ...*v1.Pod) error {
				next := map[string][]byte{}
				for _, p := range pods {
					content, err := json.Marshal(p)
					if err != nil {
						return err
					}
					next[p.Name+".json"] = content
				}
				for name := range good {
					if next[name] == nil {
						if err := os.Remove(filepath.Join(dir, name)); err != nil {
							return err
						}
					}
				}
				good = next
				for name, content := range good {
					if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
						return err
					}
				}
				return nil
			},
			Break: func(_ context.Context, broken bool) error {
				defer func() { <-time.After(3 * time.Second) }() // virtual
				if broken {
					return point(dir)
				}
				return point(target)
			},
		}
	})
}

// server is an in-memory server that answers with a list of pods.
type server struct {
	mu     sync.Mutex
	list   v1.PodList
	broken bool
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, errors.New("connection refused")
	}
	body, err := json.Marshal(s.list)
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(body))), ContentLength: int64(len(body)),
	}, err
}

func TestHTTPConforms(t *testing.T) {
	conforms(t, func(t *testing.T) sourcetest.Subject {
		origin := &server{}
		origin.list.APIVersion, origin.list.Kind = "v1", "PodList"
		s, err := source.NewHTTP("http://manifests.example.com/", "n1", source.HTTPOptions{Period: time.Second, Transport: origin})
		if err != nil {
			t.Fatal(err)
		}
		return sourcetest.Subject{
			Source: s,
			Set: func(_ context.Context, pods ...*v1.Pod) error {
				origin.mu.Lock()
				defer origin.mu.Unlock()
				origin.list.Items = nil
				for _, p := range pods {
					origin.list.Items = append(origin.list.Items, *p)
				}
				return nil
			},
			Break: func(_ context.Context, broken bool) error {
				origin.mu.Lock()
				origin.broken = broken
				origin.mu.Unlock()
				<-time.After(3 * time.Second) // virtual
				return nil
			},
		}
	})
}
