package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// asNode makes this test binary behave as kubenode itself, so that the agent under test is
// built with the same flags (the race detector) as the test.
const asNode = "KUBENODE_UNDER_TEST"

// bootVariable says in which boot of its machine kubenode is; empty: in the true one.
const bootVariable = "KUBENODE_BOOT_ID"

func TestMain(m *testing.M) {
	if os.Getenv(asNode) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, func(o *options) {
			o.bootID = os.Getenv(bootVariable)
			o.address = cmp.Or(o.address, "127.0.0.1") // the whole cluster is on this machine
		}))
	}
	goleak.VerifyTestMain(m)
}

// TestBadInput: what is wrong on the command line ends the program with an error that names it
// and says what to do.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("kubeconfig", `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no kubeconfig":           {nil, "--kubeconfig is required"},
		"missing kubeconfig":      {[]string{"--kubeconfig=" + dir + "/none"}, dir + "/none"},
		"kubeconfig of nothing":   {[]string{"--kubeconfig=" + file("empty", "")}, dir + "/empty"},
		"no kubeconfig at all":    {[]string{"--kubeconfig=" + file("text", "hello")}, dir + "/text"},
		"no such runtime":         {[]string{"--kubeconfig=" + good, "--runtime=unix://" + dir + "/none.sock"}, "none.sock"},
		"no such address":         {[]string{"--kubeconfig=" + good, "--address=localhost"}, `--address "localhost" is no IP address`},
		"loopback address":        {[]string{"--kubeconfig=" + good, "--address=127.0.0.1"}, "--address 127.0.0.1"},
		"all addresses":           {[]string{"--kubeconfig=" + good, "--address=::"}, "--address ::"},
		"link-local address":      {[]string{"--kubeconfig=" + good, "--address=fe80::1"}, "--address fe80::1"},
		"an argument":             {[]string{"--kubeconfig=" + good, "start"}, `"start"`},
		"a label without a value": {[]string{"--label=zone"}, `"zone" is not KEY=VALUE`},
		"another policy":          {[]string{"--kubeconfig=" + good, "--when-gone=dance"}, "rejoin, drain and exit"},
		"missing bootstrap":       {[]string{"--bootstrap-kubeconfig=" + dir + "/none"}, "--bootstrap-kubeconfig " + dir + "/none"},
		"two for the server":      {[]string{"--kubeconfig=" + good, "--rotate-server-certificates", "--tls-cert-file=a"}, "exclude each other"},
		"plugins without folder":  {[]string{"--kubeconfig=" + good, "--image-credential-provider-config=" + good}, "belong together"},
		"no such level":           {[]string{"--kubeconfig=" + good, "--pod-security=strict"}, `--pod-security "strict" is none`},
		"no such namespace":       {[]string{"--kubeconfig=" + good, "--pod-security-exempt-namespaces=a,B"}, `namespace "B"`},
		"no such URL":             {[]string{"--kubeconfig=" + good, "--manifest-url=host/path"}, "http or https"},
		"limits of nothing":       {[]string{"--kubeconfig=" + good, "--eviction-hard=cake<1Gi"}, "cake"},
		"a size that is none":     {[]string{"--kubeconfig=" + good, "--container-log-max-size=big"}, `"big"`},
		"too few log files":       {[]string{"--kubeconfig=" + good, "--container-log-max-files=1"}, "at least 2"},
		"a name of nothing":       {[]string{"--kubeconfig=" + good, "--kube-reserved=pid=100"}, `"pid" is none of cpu`},
		"an amount that is none":  {[]string{"--kubeconfig=" + good, "--system-reserved=cpu"}, `--system-reserved "cpu": want amounts`},
		"no pods":                 {[]string{"--kubeconfig=" + good, "--max-pods=0"}, "--max-pods 0"},
		"a flag that is none":     {[]string{"--nodename=a"}, "nodename"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", "")
			var stderr bytes.Buffer
			if code := run(c.args, io.Discard, &stderr); code != 1 || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("code %d, want %q in: %s", code, c.want, stderr.String())
			}
		})
	}
}

// TestReserved: what the two flags keep back adds up.
func TestReserved(t *testing.T) {
	u := upkeep{agent: "cpu=100m, memory=200Mi", system: "cpu=0.4,ephemeral-storage=1Gi"}
	got, err := u.reserved()
	want := v1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("200Mi"), "ephemeral-storage": resource.MustParse("1Gi")}
	if !equality.Semantic.DeepEqual(got, want) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// TestLogOfLibraries: what the client libraries log is in kubenode's log, in its form and at its level.
func TestLogOfLibraries(t *testing.T) {
	defer klog.ClearLogger()
	var stderr bytes.Buffer
	newLogger(&stderr, 0)
	klog.ErrorS(errors.New("reset by peer"), "Error proxying data from backend to client")
	klog.V(4).InfoS("a detail")
	klog.Flush()
	if got := stderr.String(); !strings.Contains(got, `level=ERROR msg="Error proxying data from backend to client" err="reset by peer"`) || strings.Contains(got, "a detail") {
		t.Errorf("log: %q", got)
	}
}

// TestServerFiles: a certificate needs its key, files that cannot be read are named, and
// without any the server has a certificate that signs itself.
func TestServerFiles(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		o    options
		want string
	}{
		"no key":       {options{certificate: dir + "/a.crt"}, "belong together"},
		"no such file": {options{certificate: dir + "/a.crt", key: dir + "/a.key"}, dir + "/a.crt"},
		"signs itself": {options{name: "edge-1"}, ""},
	} {
		certificate, err := servingCertificate(c.o)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if pair, err := certificate(); err != nil || len(pair.Certificate) == 0 {
			t.Errorf("%s: %v, %v", name, pair, err)
		}
	}
}

// TestServerWithoutANetwork: after a boot without a network no address leads to the API server, or the machine does not have its
// own one yet. The node's server is there nevertheless (KN11), since pods start without the network.
func TestServerWithoutANetwork(t *testing.T) {
	authority, _, err := cert.GenerateSelfSignedCertKey("authority", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]options{"no way to the API server": {name: "edge-1"}, "not assigned yet": {name: "edge-1", address: "192.0.2.77"}} {
		server, err := listen(o, &rest.Config{Host: "https://api.invalid:6443", TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, logr.Discard())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if pair, err := server.Certificate(nil); err != nil || len(pair.Certificate) == 0 {
			t.Errorf("%s: %v, %v", name, pair, err)
		}
		if err := server.Listener.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestClientAuthorityFollowsItsFile (KH1): a replaced file counts from the next request on. While it cannot be used, the last
// authority counts, and the log says so once.
func TestClientAuthorityFollowsItsFile(t *testing.T) {
	pem := func(name string) string {
		certificate, _, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(certificate)
	}
	old, rotated, file := pem("old"), pem("rotated"), filepath.Join(t.TempDir(), "ca.crt")
	logged := 0
	logger := funcr.New(func(string, string) { logged++ }, funcr.Options{})
	for name, c := range map[string]struct {
		o   options
		api *rest.Config
	}{
		"the flag":       {options{clientCA: file}, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte(rotated)}}},
		"the kubeconfig": {options{}, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file}}},
	} {
		if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		authority, err := clientAuthority(c.o, c.api, logger)
		if err != nil {
			t.Fatal(err)
		}
		logged = 0
		for _, step := range []struct {
			content, want string
			logged        int
		}{
			{old, old, 0},
			{rotated, rotated, 0},
			{"", rotated, 1},
			{rotated[:100], rotated, 1},
			{old + rotated, old + rotated, 1},
			{"", old + rotated, 2},
			{rotated, rotated, 2},
		} {
			if err := os.WriteFile(file, []byte(step.content), 0o600); err != nil {
				t.Fatal(err)
			}
			want, err := poolOf([]byte(step.want), file)
			if got := authority(); err != nil || !got.Equal(want) || logged != step.logged {
				t.Errorf("%s: %.40q: another authority, or %d lines", name, step.content, logged)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if want, _ := poolOf([]byte(rotated), file); !authority().Equal(want) || logged != 3 {
			t.Errorf("%s: a file that is gone takes the authority with it", name)
		}
		if _, err := clientAuthority(c.o, c.api, logger); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: at a start: %v", name, err)
		}
	}
}

// TestKubeconfigOfABootstrappedNode: the file that a node writes names the server, whom to trust and the
// certificate of the moment, and is what the next start uses, with or without the bootstrap file (KC1).
func TestKubeconfigOfABootstrappedNode(t *testing.T) {
	dir := t.TempDir()
	o := options{kubeconfig: dir + "/kubeconfig", certificates: certificateFlags{bootstrap: dir + "/bootstrap"}}
	if err := os.WriteFile(o.certificates.bootstrap, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"https://192.0.2.1:6443","insecure-skip-tls-verify":true}}],
		"users":[{"name":"u","user":{"token":"abcdef.0123456789abcdef"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"current-context":"c"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	api, write, err := apiConfig(o, dir)
	if err != nil || write == nil || api.BearerToken != "" || api.Host != "https://192.0.2.1:6443" {
		t.Fatalf("%v, %v", api, err)
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(o.kubeconfig)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if api, write, err = apiConfig(o, dir); err != nil || write == nil || api.BearerToken != "" {
		t.Errorf("while the certificate is missing: %v, %v", api, err)
	}
	pair := dir + "/kubelet-client-current.pem"
	if err := os.WriteFile(pair, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.certificates.bootstrap = ""
	if api, write, err = apiConfig(o, dir); err != nil || write != nil || api.CertFile != pair || api.KeyFile != pair || !api.Insecure {
		t.Errorf("the next start: %v, %v", api, err)
	}
}
