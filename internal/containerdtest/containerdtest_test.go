package containerdtest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readArchive returns the files of an archive by name.
func readArchive(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = content
	}
}

// Every reference in an archive must lead to a blob with that digest and size.
func TestArchiveIsConsistent(t *testing.T) {
	var b bytes.Buffer
	err := writeArchive(&b,
		busyboxImage(Image, []byte("busy"), []string{"sh", "busybox", "sleep"}),
		pauseImage(pauseReference, []byte("pause")))
	if err != nil {
		t.Fatal(err)
	}
	files := readArchive(t, b.Bytes())
	blob := func(d descriptor) []byte {
		t.Helper()
		content, ok := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		sum := sha256.Sum256(content)
		if !ok || d.Digest != "sha256:"+hex.EncodeToString(sum[:]) || d.Size != len(content) {
			t.Fatalf("blob %+v: present %v, %d bytes, digest %x", d, ok, len(content), sum)
		}
		return content
	}
	var top index
	if err := json.Unmarshal(files["index.json"], &top); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range top.Manifests {
		names = append(names, d.Annotations["io.containerd.image.name"])
		var m manifest
		if err := json.Unmarshal(blob(d), &m); err != nil {
			t.Fatal(err)
		}
		var c configuration
		if err := json.Unmarshal(blob(m.Config), &c); err != nil {
			t.Fatal(err)
		}
		if len(m.Layers) != 1 || !slices.Equal(c.RootFS.DiffIDs, []string{m.Layers[0].Digest}) {
			t.Errorf("layers %v, diff IDs %v", m.Layers, c.RootFS.DiffIDs)
		}
		readArchive(t, blob(m.Layers[0]))
	}
	if want := []string{Image, pauseReference}; !slices.Equal(names, want) {
		t.Errorf("images %v, want %v", names, want)
	}
}

// The same input gives the same archive, so image IDs are stable between runs.
func TestArchiveIsReproducible(t *testing.T) {
	var archives [2]bytes.Buffer
	for n := range archives {
		if err := writeArchive(&archives[n], busyboxImage(Image, []byte("busy"), []string{"sh"}), pauseImage(pauseReference, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("two archives of one input differ")
	}
}

// What is missing is reported in one go, with the command that installs it.
func TestFindNamesWhatIsMissing(t *testing.T) {
	m := machine{
		uid:        1000,
		lookPath:   func(name string) (string, error) { return "", errors.New(name + " not found") },
		cniFolders: []string{t.TempDir()},
	}
	_, err := m.find()
	if err == nil {
		t.Fatal("found everything on an empty machine")
	}
	for _, want := range []string{
		"needs root, this is user 1000",
		"containerd is not installed", "containerd-shim-runc-v2", "ctr", "runc", "ip", "busybox", "CNI plugins",
		"apt-get install containerd runc containernetworking-plugins busybox-static iproute2",
		EndpointVariable,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q:\n%v", want, err)
		}
	}
}

// Only the user is wrong: no packages are proposed.
func TestFindNotRoot(t *testing.T) {
	cni := t.TempDir()
	for _, plugin := range []string{"bridge", "host-local", "loopback"} {
		if err := os.WriteFile(filepath.Join(cni, plugin), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A Go binary without cgo stands in for the static busybox; this test
	// binary may be linked dynamically, so /proc/self/exe will not do.
	m := machine{uid: 1000, cniFolders: []string{"/nowhere", cni}, lookPath: func(name string) (string, error) { return "/bin/" + name, nil }}
	if got := m.cniFolder(); got != cni {
		t.Errorf("CNI folder %q, want %q", got, cni)
	}
	m.lookPath = func(name string) (string, error) {
		if name == "busybox" {
			return "", errors.New("absent")
		}
		return "/bin/" + name, nil
	}
	_, err := m.find()
	if err == nil || !strings.Contains(err.Error(), "busybox-static") || strings.Contains(err.Error(), "runc is not installed") {
		t.Errorf("got %v", err)
	}
}

// The programs of another containerd come from its folder alone: a shim of the
// machine's containerd does not stand in for one that is missing there.
func TestFindInAnotherFolder(t *testing.T) {
	m := machine{
		programs: t.TempDir(), cniFolders: []string{"/nowhere"},
		lookPath: func(name string) (string, error) { return "/bin/" + name, nil },
	}
	for _, name := range []string{"containerd", "ctr"} {
		if err := os.WriteFile(filepath.Join(m.programs, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := m.find()
	want := "containerd-shim-runc-v2 is not in " + ProgramsVariable + "=" + m.programs
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "ctr is not") {
		t.Errorf("got %v, want %q and nothing about ctr", err, want)
	}
}

// The socket of a shim is found in what either generation of containerd writes.
func TestShimAddress(t *testing.T) {
	const want = "unix:///run/s/1"
	for name, content := range map[string]string{"address": want, "bootstrap.json": `{"version":3,"address":"` + want + `","protocol":"ttrpc"}`} {
		bundle := t.TempDir()
		if err := os.WriteFile(filepath.Join(bundle, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := shimAddress(bundle); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := shimAddress(t.TempDir()); got != "" {
		t.Errorf("without a file: got %q", got)
	}
}

func TestSlots(t *testing.T) {
	folder := t.TempDir()
	first, leftover, err := takeSlot(folder)
	if err != nil || leftover != "" {
		t.Fatalf("first: leftover %q, %v", leftover, err)
	}
	if err := first.claim("/tmp/podwright-1"); err != nil {
		t.Fatal(err)
	}
	second, leftover, err := takeSlot(folder)
	if err != nil || leftover != "" {
		t.Fatalf("second: leftover %q, %v", leftover, err)
	}
	if first.bridge() == second.bridge() || first.subnet() == second.subnet() || first.network() == second.network() {
		t.Errorf("two slots share a name: %+v, %+v", first, second)
	}
	if n := len(fmtBridge(slotCount - 1)); n > 15 {
		t.Errorf("interface name of %d bytes, 15 are allowed", n)
	}
	// The first one dies: its folder is handed to the next holder.
	if err := first.release(false); err != nil {
		t.Fatal(err)
	}
	third, leftover, err := takeSlot(folder)
	if err != nil || third.number != 0 || leftover != "/tmp/podwright-1" {
		t.Fatalf("third: slot %v, leftover %q, %v", third, leftover, err)
	}
	if err := third.release(true); err != nil {
		t.Fatal(err)
	}
	fourth, leftover, err := takeSlot(folder)
	if err != nil || leftover != "" {
		t.Fatalf("after a clean release: leftover %q, %v", leftover, err)
	}
	for _, s := range []*slot{second, fourth} {
		if err := s.release(true); err != nil {
			t.Error(err)
		}
	}
}

func fmtBridge(n int) string { return (&slot{number: n}).bridge() }

// A lock file that something else wrote must never make the clean-up remove a folder of theirs.
func TestRemoveLeftoversRefusesForeignFolders(t *testing.T) {
	for _, root := range []string{"", "/", "/home", "podwright-1", "/tmp/other"} {
		if err := removeLeftovers(t.Context(), layout{root}, &slot{}, &tools{}); err == nil {
			t.Errorf("%q was accepted", root)
		}
	}
}

func TestMountPoints(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:40 / /tmp/podwright-1/state/x rw - tmpfs tmpfs rw
31 30 0:41 / /tmp/podwright-1/state/x/with\040blank rw - overlay overlay rw
32 22 0:42 / /tmp/podwright-11/y rw - tmpfs tmpfs rw
33 22 0:43 / /tmp/podwright-1 rw - tmpfs tmpfs rw
`
	want := []string{"/tmp/podwright-1/state/x", "/tmp/podwright-1/state/x/with blank", "/tmp/podwright-1"}
	if got := mountPoints(mountinfo, "/tmp/podwright-1"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadProcess(t *testing.T) {
	p, ok := readProcess(os.Getpid())
	if !ok || p.parent != os.Getppid() || p.zombie || !slices.Equal(p.args, os.Args) {
		t.Errorf("got %+v, %v", p, ok)
	}
}

func TestForeignEndpointIsChecked(t *testing.T) {
	for endpoint, want := range map[string]string{
		"tcp://127.0.0.1:1": "want unix:///path/of/socket",
		"/run/x.sock":       "want unix:///path/of/socket",
	} {
		if err := (&Instance{Endpoint: endpoint, tb: t}).prepareForeign(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", endpoint, err, want)
		}
	}
}
