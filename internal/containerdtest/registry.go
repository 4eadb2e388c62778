package containerdtest

import (
	"crypto/subtle"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"testing"
)

// RegistryOptions configures a [Registry]. The zero value lets everybody pull.
type RegistryOptions struct {
	// Username and Password, if set, must be given with every request.
	Username, Password string
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
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		tb.Fatalf("containerdtest: busybox is not installed: apt-get install %s", packages)
	}
	content, err := os.ReadFile(busybox)
	if err != nil {
		tb.Fatalf("containerdtest: %v", err)
	}
	img := busyboxImage("busybox:pull", content, []string{"sh", "sleep"})
	img.env = append(img.env, "PULLED=1")
	blobs, manifests, err := assemble(img)
	if err != nil {
		tb.Fatalf("containerdtest: %v", err)
	}
	h := &registryHandler{options: options, blobs: blobs, manifest: manifests[0].Digest}
	server := httptest.NewServer(h)
	tb.Cleanup(func() {
		// Requests that hang in Before end with their connections.
		server.CloseClientConnections()
		server.Close()
	})
	return &Registry{Image: strings.TrimPrefix(server.URL, "http://") + "/busybox:pull"}
}

// registryHandler answers the pull side of the OCI distribution protocol.
type registryHandler struct {
	options  RegistryOptions
	blobs    map[string][]byte
	manifest string
}

func (h *registryHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.options.Before != nil {
		h.options.Before(r)
	}
	user, password, _ := r.BasicAuth()
	if !equal(user, h.options.Username) || !equal(password, h.options.Password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return
	}
	switch folder, name := path.Split(r.URL.Path); folder {
	case "/v2/":
		w.WriteHeader(http.StatusOK)
	case "/v2/busybox/manifests/":
		if name == "pull" {
			name = h.manifest
		}
		h.blob(w, r, name, mediaTypeManifest)
	case "/v2/busybox/blobs/":
		h.blob(w, r, name, "application/octet-stream")
	default:
		http.NotFound(w, r)
	}
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
		// A client that went away is its own business.
		_, _ = w.Write(content)
	}
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
