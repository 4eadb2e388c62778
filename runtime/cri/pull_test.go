package cri_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
