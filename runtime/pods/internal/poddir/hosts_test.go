package poddir_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

func TestHostsFileContent(t *testing.T) {
	aliases := []v1.HostAlias{{IP: "10.9.9.9", Hostnames: []string{"x", "y"}}}
	got := string(poddir.Hosts([]string{"10.0.0.1", "fd00::1"}, "web", "sub.ns.svc.cluster.local", aliases))
	want := `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
10.0.0.1	web.sub.ns.svc.cluster.local	web
fd00::1	web.sub.ns.svc.cluster.local	web

# Entries added by HostAliases.
10.9.9.9	x	y
`
	if got != want {
		t.Errorf("12.4:\n%s", got)
	}
	got = string(poddir.HostNetworkHosts([]byte("127.0.0.1 me\n"), nil))
	if got != "# Kubernetes-managed hosts file (host network).\n127.0.0.1 me\n" {
		t.Errorf("12.4 host network:\n%s", got)
	}
}

// The file keeps its inode, because running containers have it mounted.
func TestHostsFileInPlace(t *testing.T) {
	s := newStore(t)
	path, err := s.HostsFile("u", []byte("long content"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.HostsFile("u", []byte("short")); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if text, _ := os.ReadFile(path); err != nil || !os.SameFile(before, after) || string(text) != "short" || after.Mode().Perm() != 0o644 {
		t.Errorf("content %q, mode %v, same %v", text, after.Mode(), os.SameFile(before, after))
	}
}

// 12.4: running containers never see an empty hosts file, and one that is right is not written to.
func TestHostsFileIsNeverEmpty(t *testing.T) {
	s := newStore(t)
	contents := [][]byte{[]byte("short"), []byte(strings.Repeat("long ", 1000))}
	path, err := s.HostsFile("u", contents[0])
	if err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1000, 0)
	if err := errors.Join(os.Chmod(path, 0o600), os.Chtimes(path, old, old)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.HostsFile("u", contents[0]); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(old) || info.Mode() != 0o644 {
		t.Errorf("written again at %v, mode %v, err %v", info.ModTime(), info.Mode(), err)
	}
	var writer sync.WaitGroup
	ended := make(chan struct{})
	writer.Go(func() {
		defer close(ended)
		for i := range 2000 {
			if _, err := s.HostsFile("u", contents[i%2]); err != nil {
				t.Error(err)
			}
		}
	})
	defer writer.Wait()
	for {
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Fatalf("%v, err %v", info, err)
		}
		select {
		case <-ended:
			return
		default:
		}
	}
}

func ExampleHosts() {
	text := string(poddir.Hosts([]string{"10.0.0.1"}, "web", "", nil))
	fmt.Println(text[:strings.IndexByte(text, '\n')])
	// Output: # Kubernetes-managed hosts file.
}
