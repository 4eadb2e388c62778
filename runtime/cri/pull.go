package cri

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime"
)

// PullImage implements ImageService. It has no time limit as long as the runtime answers other calls,
// except for [Options].PullStallTimeout.
func (c *Client) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, podSandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	const op = "PullImage"
	pullCtx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watchPull(pullCtx, cancel)
	}()
	response, err := call(pullCtx, c, op, noLimit, c.images.PullImage,
		&runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: podSandboxConfig})
	cancel(nil)
	<-watched
	var stalled *stallError
	switch {
	case err == nil && response.GetImageRef() == "":
		return "", c.failure(op, errors.New("the runtime returned no image reference"))
	case err == nil:
		return response.GetImageRef(), nil
	case errors.As(context.Cause(pullCtx), &stalled):
		return "", &Error{Op: op, Endpoint: c.endpoint, Code: codes.DeadlineExceeded, Err: stalled}
	default:
		return "", c.failure(op, withoutSecrets(err, auth))
	}
}

// stallError is the cause of a pull that was cancelled for lack of progress.
type stallError struct {
	limit time.Duration
	// last is the latest error of reading the file systems, nil if there was none.
	last error
}

func (e *stallError) Error() string {
	if e.last != nil {
		return fmt.Sprintf("the pull made no progress for %v: %v", e.limit, e.last)
	}
	return fmt.Sprintf("the pull made no progress for %v", e.limit)
}

// silentRuntime is after how long a runtime that does not answer has lost the pulls that it was asked for.
const silentRuntime = 5 * time.Minute

// watchPull cancels a pull that makes no progress, or whose runtime does not answer; it returns when ctx ends.
func (c *Client) watchPull(ctx context.Context, cancel context.CancelCauseFunc) {
	limit, silent := c.options.PullStallTimeout, false
	if limit < 0 {
		return
	}
	if limit == 0 { // a download need not show, but a runtime that works answers
		limit, silent = silentRuntime, true
	}
	period := min(max(limit/10, time.Millisecond), 30*time.Second)
	ticker := c.options.Clock.NewTicker(period)
	defer ticker.Stop()
	var seen []usage
	since := c.options.Clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		now, err := c.imageUsage(ctx, period)
		if !silent { // the kernel's answer counts for nothing otherwise, and may never come
			c.countFree(ctx, period, now)
		}
		switch {
		case silent && answered(err), err == nil && (len(now) == 0 || !slices.Equal(now, seen)):
			seen, since = now, c.options.Clock.Now()
		case c.options.Clock.Since(since) >= limit:
			cancel(&stallError{limit: limit, last: err})
			return
		}
	}
}

// answered reports whether a call with this error reached a runtime that works.
func answered(err error) bool {
	class := Class(err)
	return class != runtime.ErrUnavailable && class != runtime.ErrDeadline
}

// usage is how full one file system is, by the runtime and, if it was asked, by the kernel.
type usage struct {
	mountpoint             string
	bytes, inodes          uint64
	freeBlocks, freeInodes uint64
}

// imageUsage asks the runtime for the file systems that hold images. It is empty if the runtime
// answers without any.
func (c *Client) imageUsage(ctx context.Context, limit time.Duration) ([]usage, error) {
	response, err := call(ctx, c, "ImageFsInfo", max(limit, time.Second), c.images.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []usage
	for _, fs := range slices.Concat(response.GetImageFilesystems(), response.GetContainerFilesystems()) {
		all = append(all, usage{
			mountpoint: fs.GetFsId().GetMountpoint(),
			bytes:      fs.GetUsedBytes().GetValue(),
			inodes:     fs.GetInodesUsed().GetValue(),
		})
	}
	return all, nil
}

// countFree adds what the kernel says of file systems, as far as it can. If the server of one is gone, the kernel does not
// return from a call about it, and no context ends it: it is left behind, and until it has returned, there is no other call
// about the same, for whatever pull.
func (c *Client) countFree(ctx context.Context, limit time.Duration, all []usage) {
	for i := range all {
		path := all[i].mountpoint
		call := foreign.Call{Kind: problem.Function, Name: "statfs", Object: path}
		kernel, err := foreign.Ask(ctx, c.kernel, call, foreign.Limits{Wait: limit, Join: true}, func(context.Context) (unix.Statfs_t, error) {
			var out unix.Statfs_t
			err := c.options.statfs(path, &out)
			return out, err
		})
		if err == nil {
			all[i].freeBlocks, all[i].freeInodes = kernel.Bfree, kernel.Ffree
		}
	}
}

// withoutSecrets returns err with every secret of auth replaced, in case the runtime
// quotes one.
func withoutSecrets(err error, auth *runtimeapi.AuthConfig) error {
	s := status.Convert(err)
	message := s.Message()
	for _, secret := range secretsOf(auth) {
		message = strings.ReplaceAll(message, secret, "[redacted]")
	}
	if message == s.Message() {
		return err
	}
	// The details may quote a secret too, so they are dropped.
	return status.Error(s.Code(), message)
}

// secretsOf returns what must not be shown, longest first: replacing a part of a secret
// first would leave the rest of it visible.
func secretsOf(auth *runtimeapi.AuthConfig) []string {
	secrets := []string{auth.GetPassword(), auth.GetAuth(), auth.GetIdentityToken(), auth.GetRegistryToken()}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if plain, err := encoding.DecodeString(auth.GetAuth()); err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			secrets = append(secrets, string(plain), password)
		}
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return secrets
}
