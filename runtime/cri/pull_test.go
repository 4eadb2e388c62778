package cri_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// usage answers ImageFsInfo with one file system that exists nowhere.
func usage(reply any, bytes uint64) {
	reply.(*runtimeapi.ImageFsInfoResponse).ImageFilesystems = []*runtimeapi.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(),
		FsId:      &runtimeapi.FilesystemIdentifier{Mountpoint: "/nowhere/images"},
		UsedBytes: &runtimeapi.UInt64Value{Value: bytes},
	}}
}

// The limit of a pull is on lack of progress, not on time (spec/runtime.md 23,
// 9.5): hours are fine while something arrives.
func TestPullStall(t *testing.T) {
	const limit = 10 * time.Minute
	start := time.Time{}
	elapsed := func() time.Duration { return time.Since(start) }
	for _, tc := range []struct {
		name string
		// pull takes this long; 0 hangs forever.
		pull time.Duration
		info func(ctx context.Context, reply any) error
		// want is when the pull ends by the limit; 0 means it succeeds.
		want     time.Duration
		wantText string
		options  cri.Options
		// byDefault leaves the option unset.
		byDefault bool
	}{
		{
			name: "steady progress for hours", pull: 5 * time.Hour,
			info: func(_ context.Context, reply any) error { usage(reply, uint64(elapsed())); return nil },
		},
		{
			name: "pauses shorter than the limit", pull: 5 * time.Hour,
			info: func(_ context.Context, reply any) error {
				usage(reply, uint64(elapsed().Truncate(limit-time.Minute)))
				return nil
			},
		},
		{
			name: "nothing ever arrives",
			info: func(_ context.Context, reply any) error { usage(reply, 7); return nil },
			// The first reading, after 30 s, is news.
			want: limit + 30*time.Second, wantText: "made no progress for 10m0s",
		},
		{
			name: "stops after an hour",
			info: func(_ context.Context, reply any) error { usage(reply, uint64(min(elapsed(), time.Hour))); return nil },
			want: time.Hour + limit, wantText: "made no progress for 10m0s",
		},
		{
			name: "the runtime stops answering",
			info: func(ctx context.Context, _ any) error { return hang(ctx, "", nil, nil) },
			want: limit, wantText: "ImageFsInfo: deadline exceeded",
		},
		{
			name: "no usage to be had", pull: 5 * time.Hour,
			info: func(context.Context, any) error { return status.Error(codes.Unimplemented, "no") },
		},
		{
			name: "no file systems named", pull: 5 * time.Hour,
			info: func(context.Context, any) error { return nil },
		},
		{
			name: "limit off", pull: 5 * time.Hour, options: cri.Options{PullStallTimeout: -1},
			info: func(_ context.Context, reply any) error { usage(reply, 7); return nil },
		},
		{
			name: "by default, a runtime that does not answer", pull: 5 * time.Hour, byDefault: true,
			info: func(context.Context, any) error { return status.Error(codes.Unavailable, "down") },
			want: 5 * time.Minute, wantText: "the pull made no progress for 5m0s: ImageFsInfo: runtime unavailable",
		},
		{
			name: "by default, a runtime that fails to tell", pull: 5 * time.Hour, byDefault: true,
			info: func(context.Context, any) error { return status.Error(codes.Unknown, "no such snapshotter") },
		},
		{
			name: "no limit by default, whatever shows", pull: 5 * time.Hour, byDefault: true,
			info: func(_ context.Context, reply any) error { usage(reply, 7); return nil },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.options.PullStallTimeout == 0 && !tc.byDefault {
					tc.options.PullStallTimeout = limit
				}
				c := unconnected(t, tc.options, func(ctx context.Context, method string, _, reply any) error {
					if method == "ImageFsInfo" {
						return tc.info(ctx, reply)
					}
					if tc.pull == 0 {
						return hang(ctx, "", nil, nil)
					}
					select {
					case <-time.After(tc.pull):
						reply.(*runtimeapi.PullImageResponse).ImageRef = "sha256:1"
						return nil
					case <-ctx.Done():
						return status.FromContextError(ctx.Err()).Err()
					}
				})
				start = time.Now()
				ref, err := c.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: "i"}, nil, nil)
				if tc.want == 0 {
					if err != nil || ref != "sha256:1" || elapsed() != tc.pull {
						t.Errorf("after %v: got %q, %v; want success after %v", elapsed(), ref, err, tc.pull)
					}
					return
				}
				if !errors.Is(err, runtime.ErrDeadline) || !strings.Contains(fmt.Sprint(err), tc.wantText) {
					t.Errorf("got %v, want ErrDeadline and %q", err, tc.wantText)
				}
				// A reading every 30 s: the limit may come one reading late.
				if got := elapsed(); got < tc.want || got > tc.want+time.Minute {
					t.Errorf("ended after %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// A file system whose server is gone keeps no pull from its end, costs one call for all pulls, and does not hide what the
// runtime tells of progress (spec/runtime.md 23, 12.8).
func TestPullWhileStatfsHangs(t *testing.T) {
	const limit = 10 * time.Minute
	for _, tc := range []struct {
		name string
		// pull is how long each of the two pulls takes, leave when their caller leaves; 0: never.
		pull, leave time.Duration
		// arrives: the runtime tells of progress.
		arrives bool
		want    error
		// ends is when they end, at most late after that.
		ends, late time.Duration
	}{
		{name: "the runtime answers", pull: 40 * time.Second, ends: 40 * time.Second},
		{name: "the caller leaves", pull: time.Hour, leave: 40 * time.Second, want: runtime.ErrCanceled, ends: 40 * time.Second},
		{name: "progress for hours", pull: 5 * time.Hour, arrives: true, ends: 5 * time.Hour},
		{name: "nothing arrives", pull: 5 * time.Hour, want: runtime.ErrDeadline, ends: limit, late: 2 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := unconnected(t, cri.Options{PullStallTimeout: limit}, func(ctx context.Context, method string, _, reply any) error {
					if method == "ImageFsInfo" {
						usage(reply, 7)
						if tc.arrives {
							usage(reply, uint64(time.Since(start)))
						}
						return nil
					}
					select {
					case <-time.After(tc.pull):
						reply.(*runtimeapi.PullImageResponse).ImageRef = "sha256:1"
						return nil
					case <-ctx.Done():
						return status.FromContextError(ctx.Err()).Err()
					}
				})
				back := make(chan struct{})
				defer close(back)
				var calls atomic.Int32
				c.SetStatfs(func(string, *unix.Statfs_t) error { calls.Add(1); <-back; return nil })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.leave > 0 {
					time.AfterFunc(tc.leave, cancel)
				}
				var pulls sync.WaitGroup
				for range 2 {
					pulls.Go(func() {
						if _, err := c.PullImage(ctx, nil, nil, nil); !errors.Is(err, tc.want) {
							t.Errorf("got %v, want %v", err, tc.want)
						}
						if got := time.Since(start); got < tc.ends || got > tc.ends+tc.late {
							t.Errorf("ended after %v, want %v", got, tc.ends)
						}
					})
				}
				pulls.Wait()
				if n := calls.Load(); n != 1 {
					t.Errorf("%d calls of statfs hang", n)
				}
			})
		})
	}
}

func TestPullEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := unconnected(t, cri.Options{}, hang)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := c.PullImage(ctx, nil, nil, nil); !errors.Is(err, runtime.ErrCanceled) {
			t.Errorf("got %v, want ErrCanceled", err)
		}
	})
}

// Whatever of the credentials a runtime quotes, no error shows it, in any form.
func TestPullErrorHidesSecrets(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("bob:from-auth"))
	for _, tc := range []struct {
		name   string
		auth   *runtimeapi.AuthConfig
		secret string
	}{
		{"password", &runtimeapi.AuthConfig{Username: "bob", Password: "s3cret"}, "s3cret"},
		{"auth", &runtimeapi.AuthConfig{Auth: encoded}, encoded},
		{"password inside auth", &runtimeapi.AuthConfig{Auth: encoded}, "from-auth"},
		{"password inside unpadded auth", &runtimeapi.AuthConfig{Auth: strings.TrimRight(encoded, "=")}, "from-auth"},
		{"identity token", &runtimeapi.AuthConfig{IdentityToken: "id-token"}, "id-token"},
		{"registry token", &runtimeapi.AuthConfig{RegistryToken: "reg-token"}, "reg-token"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &server{unary: func(_ context.Context, method string, _ any) (any, error) {
				if method != "PullImage" {
					return nil, status.Error(codes.Unimplemented, method)
				}
				return nil, status.Errorf(codes.Unavailable, "RegistryUnavailable: GET https://bob:%s@registry/v2/ failed", tc.secret)
			}}
			c := connect(t, s, cri.Options{})
			_, err := c.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: "i"}, tc.auth, nil)
			for e := err; e != nil; e = errors.Unwrap(e) {
				for _, text := range []string{e.Error(), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e), status.Convert(e).String()} {
					if strings.Contains(text, tc.secret) {
						t.Fatalf("secret in %s", text)
					}
				}
			}
			// The rest of the message is needed (spec/runtime.md 9.7).
			if m := status.Convert(err).Message(); !strings.HasPrefix(m, "RegistryUnavailable: GET https://") || !strings.HasSuffix(m, "[redacted]@registry/v2/ failed") {
				t.Errorf("message %q", m)
			}
			if !errors.Is(err, runtime.ErrUnavailable) {
				t.Errorf("class lost: %v", err)
			}
		})
	}
}
