package containerdtest

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// RegistryOptions configures a [Registry]. The zero value lets everyone pull.
type RegistryOptions struct {
	// Username and Password, if set, must be given with every request.
	Username, Password string
	// Allow, if set, is used instead of these. It is called from the goroutine of each request.
	Allow func(username, password string) bool
	// Bearer makes clients first get a token for their password, as most registries do. A token is
	// valid as long as its password is.
	Bearer bool
	// Before, if set, is called before each request is answered, from the
	// goroutine of that request. It may block; the request's context ends
	// when the client gives up or the test is over.
	Before func(*http.Request)
}

// Registry is a read-only image registry on loopback with one image. Runtimes
// that speak plain HTTP to loopback registries, containerd among them, can pull
// from it.
type Registry struct {
	// Image is the image's reference, "127.0.0.1:port/busybox:pull". It has
	// the files of [Image] but another ID, so removing one keeps the other.
	Image string
}

// ServeRegistry serves a registry until the end of the test.
func ServeRegistry(tb testing.TB, options RegistryOptions) *Registry {
	tb.Helper()
	content, err := os.ReadFile(lookBusybox(tb))
	if err != nil {
		tb.Fatalf("containerdtest: %v", err)
	}
	img := busyboxImage("busybox:pull", content, []string{"sh", "sleep"})
	img.env = append(img.env, "PULLED=1")
	return &Registry{Image: serve(tb, options, img)}
}

// lookBusybox returns the path of the machine's busybox.
func lookBusybox(tb testing.TB) string {
	tb.Helper()
	busybox, err := exec.LookPath("busybox")
	if err == nil {
		err = mustBeStatic(busybox)
	}
	if err != nil {
		tb.Fatalf("containerdtest: no busybox for an image: %v: apt-get install busybox-static", err)
	}
	return busybox
}

// serve serves one image, whose reference is name:tag, until the end of the test. It returns
// the image's reference for a runtime.
func serve(tb testing.TB, options RegistryOptions, img image) string {
	tb.Helper()
	h, err := newRegistryHandler(options, img)
	if err != nil {
		tb.Fatalf("containerdtest: %v", err)
	}
	server := httptest.NewServer(h)
	tb.Cleanup(func() {
		// Requests that hang in Before end with their connections.
		server.CloseClientConnections()
		server.Close()
	})
	return strings.TrimPrefix(server.URL, "http://") + "/" + img.reference
}

// PauseName is the image that [NewPauseRegistry] serves, without the registry's address. Its
// command is /pause.
const PauseName = "pause:test"

// NewPauseRegistry returns a registry with the image that holds a sandbox's namespaces, for
// runtimes that pull it. It builds the program in folder and needs the go tool.
func NewPauseRegistry(ctx context.Context, folder string) (http.Handler, error) {
	file := filepath.Join(folder, "pause")
	if err := buildPause(ctx, "go", file); err != nil {
		return nil, err
	}
	pause, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return newRegistryHandler(RegistryOptions{}, pauseImage(PauseName, pause))
}

// registryHandler answers the pull side of the OCI distribution protocol.
type registryHandler struct {
	options RegistryOptions
	// name and tag are the image's, manifest is the digest of its manifest.
	name, tag, manifest string
	blobs               map[string][]byte

	mu     sync.Mutex
	issued map[string]login // by token
}

type login struct{ username, password string }

// newRegistryHandler answers for one image, whose reference is name:tag.
func newRegistryHandler(options RegistryOptions, img image) (*registryHandler, error) {
	blobs, manifests, err := assemble(img)
	if err != nil {
		return nil, err
	}
	name, tag, ok := strings.Cut(img.reference, ":")
	if !ok || strings.Contains(name, "/") {
		return nil, fmt.Errorf("image %q of a registry: want name:tag", img.reference)
	}
	return &registryHandler{options: options, name: name, tag: tag, manifest: manifests[0].Digest, blobs: blobs, issued: map[string]login{}}, nil
}

func (h *registryHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.options.Before != nil {
		h.options.Before(r)
	}
	if h.options.Bearer && r.URL.Path == "/token" {
		h.token(w, r)
		return
	}
	if !h.allowed(r) {
		challenge := `Basic realm="test"`
		if h.options.Bearer {
			challenge = fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, r.Host)
		}
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return
	}
	switch folder, name := path.Split(r.URL.Path); folder {
	case "/v2/":
		w.WriteHeader(http.StatusOK)
	case "/v2/" + h.name + "/manifests/":
		if name == h.tag {
			name = h.manifest
		}
		h.blob(w, r, name, mediaTypeManifest)
	case "/v2/" + h.name + "/blobs/":
		h.blob(w, r, name, "application/octet-stream")
	default:
		http.NotFound(w, r)
	}
}

// token gives a token for a password.
func (h *registryHandler) token(w http.ResponseWriter, r *http.Request) {
	var l login
	l.username, l.password, _ = r.BasicAuth()
	switch {
	case r.Method != http.MethodGet: // clients may first try OAuth
		http.Error(w, "", http.StatusMethodNotAllowed)
		return
	case !h.good(l):
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return
	}
	token := rand.Text()
	h.mu.Lock()
	h.issued[token] = l
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	// It does not matter if the client has gone away.
	_, _ = fmt.Fprintf(w, `{"token":%q,"expires_in":300}`, token)
}

// allowed reports whether a request has the required credentials.
func (h *registryHandler) allowed(r *http.Request) bool {
	if !h.options.Bearer {
		var l login
		l.username, l.password, _ = r.BasicAuth()
		return h.good(l)
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	h.mu.Lock()
	l, known := h.issued[token]
	h.mu.Unlock()
	return known && h.good(l)
}

func (h *registryHandler) good(l login) bool {
	if h.options.Allow != nil {
		return h.options.Allow(l.username, l.password)
	}
	return equal(l.username, h.options.Username) && equal(l.password, h.options.Password)
}

func (h *registryHandler) blob(w http.ResponseWriter, r *http.Request, digest, mediaType string) {
	content, ok := h.blobs[digest]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		// It does not matter if the client has gone away.
		_, _ = w.Write(content)
	}
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
