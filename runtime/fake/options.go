package fake

import (
	"net/netip"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// Options configures a fake. The zero value is a runtime on the real clock with
// an empty image store, a registry that has every image, and containers that
// run until they are stopped.
type Options struct {
	// Name is the runtime's name in Version. Empty means "fake".
	Name string
	// Clock is the source of all times, which are later than time.Unix(0, 0): the CRI counts from then, and 0
	// means never. Nil means the real clock.
	Clock clock.Clock

	// Script chooses what a new container does. It is called from
	// CreateContainer without locks held and may be called concurrently. Nil
	// means the zero Script for every container.
	Script func(Launch) Script

	// Images are in the store from the start.
	Images []Image
	// Registry answers a pull of ref, which has a tag or digest. auth may be
	// nil. It is called from PullImage without locks held and may be called
	// concurrently. Nil means every pull succeeds at once.
	Registry func(ref string, auth *runtimeapi.AuthConfig) Pull

	// Handlers and Features are what Status says the runtime can do. Both are
	// read-only from now on. Nil: Status has none, like runtimes before CRI 1.30.
	Handlers []*runtimeapi.RuntimeHandler
	Features *runtimeapi.RuntimeFeatures

	// PodIPs is the range pod addresses come from, in order; the first
	// address is never given. The zero prefix means 10.88.0.0/16.
	PodIPs netip.Prefix
	// WriteLogs makes containers with a log path write a log file in CRI
	// format at LogDirectory/LogPath, whose folder must exist. Otherwise no
	// file is touched.
	WriteLogs bool
	// StreamURL is where the test's own stream server is, such as
	// "http://127.0.0.1:1234": URLs of streams begin with it. Empty: Exec, Attach and
	// PortForward are not implemented.
	StreamURL string
	// AbandonStopOnCancel makes StopContainer forget its SIGKILL when its
	// context ends before the grace period, as containerd does. Otherwise the
	// stop continues without its caller, as in CRI-O.
	AbandonStopOnCancel bool
	// MaxCalls limits the calls kept for Runtime.Calls; the oldest are
	// forgotten first. 0 keeps all of them.
	MaxCalls int
}

// Image is an image in the store.
type Image struct {
	// Ref is the image's name. A name without tag and digest gets ":latest".
	Ref string
	// Size in bytes.
	Size uint64
	// UID is the user the image runs as, nil if it names none; Username the
	// user's name, if it is not a number.
	UID      *int64
	Username string
}

// Pull is how a pull goes.
type Pull struct {
	// Took is how long the pull takes. A pull whose context ends earlier is cancelled
	// and leaves nothing.
	Took time.Duration
	// Err, if not nil, is how it ends.
	Err error
	// Image describes the image. Its Ref is ignored.
	Image Image
}
