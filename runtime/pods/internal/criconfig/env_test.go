package criconfig_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

// sources are objects and files by name.
type sources struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string][]byte
	files      map[string]string // "volume/path"
	err        error             // of whatever is not there
}

func (s sources) missing(kind, name string) error {
	if s.err != nil {
		return s.err
	}
	return fmt.Errorf("%s %s: %w", kind, name, runtime.ErrNotFound)
}

func (s sources) ConfigMap(name string) (*v1.ConfigMap, error) {
	data, ok := s.configMaps[name]
	if !ok {
		return nil, s.missing("config map", name)
	}
	return &v1.ConfigMap{Data: data}, nil
}

func (s sources) Secret(name string) (*v1.Secret, error) {
	data, ok := s.secrets[name]
	if !ok {
		return nil, s.missing("secret", name)
	}
	return &v1.Secret{Data: data}, nil
}

func (s sources) File(volume, path string) (string, bool, error) {
	content, ok := s.files[volume+"/"+path]
	return content, ok, nil
}

// noSources has nothing.
type noSources = sources

func envOf(c v1.Container, s sources, services ...criconfig.Variable) (*criconfig.Environment, error) {
	return criconfig.NewEnvironment(criconfig.EnvInput{
		Pod: newPod(func(*v1.Pod) {}), Container: &c, Sources: s, Services: services,
	})
}

func text(e *criconfig.Environment) string {
	var out []string
	for _, kv := range e.KeyValues() {
		out = append(out, kv.Key+"="+string(kv.Value))
	}
	return strings.Join(out, " ")
}

func fromMap(name, prefix string, optional *bool) v1.EnvFromSource {
	return v1.EnvFromSource{Prefix: prefix, ConfigMapRef: &v1.ConfigMapEnvSource{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: optional,
	}}
}

func fromSecret(name, prefix string) v1.EnvFromSource {
	return v1.EnvFromSource{Prefix: prefix, SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
}

func secretKey(variable, name, key string, optional *bool) v1.EnvVar {
	return v1.EnvVar{Name: variable, ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional,
	}}}
}

func mapKey(variable, name, key string, optional *bool) v1.EnvVar {
	return v1.EnvVar{Name: variable, ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional,
	}}}
}

func fileKey(variable, path, key string, optional *bool) v1.EnvVar {
	return v1.EnvVar{Name: variable, ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{
		VolumeName: "v", Path: path, Key: key, Optional: optional,
	}}}
}

// spec/runtime.md 11.1 to 11.4, 11.7: what comes from elsewhere.
func TestEnvironmentFromObjects(t *testing.T) {
	s := sources{
		configMaps: map[string]map[string]string{"m": {"b": "1", "a": "2", "x.y-z": "3"}, "n": {"a": "4"}, "bad": {"a=b": "1", "c\x01": "2", "ok": "3"}},
		secrets: map[string]map[string][]byte{
			"s": {"user": []byte("joe"), "raw": {0xff, 0xfe}}, "zero": {"z": []byte("pw\x00d")},
			"empty": {"e": {}},
		},
		files: map[string]string{"v/f": "# c\nA='one'\nB='two\nlines'\nE=\n"},
	}
	yes := ptr.To(true)
	for _, tc := range []struct {
		rule string
		from []v1.EnvFromSource
		env  []v1.EnvVar
		want string // "!" and the error
	}{
		{rule: "11.1 keys sorted, prefixed", from: []v1.EnvFromSource{fromMap("m", "P_", nil)}, want: "P_a=2 P_b=1 P_x.y-z=3"},
		{rule: "11.1 later source wins", from: []v1.EnvFromSource{fromMap("m", "", nil), fromMap("n", "", nil)}, want: "a=4 b=1 x.y-z=3"},
		{rule: "11.1 env after envFrom wins", from: []v1.EnvFromSource{fromMap("n", "", nil)}, env: []v1.EnvVar{{Name: "a", Value: "x$(a)"}}, want: "a=x4"},
		{rule: "11.1 raw bytes", from: []v1.EnvFromSource{fromSecret("s", "")}, want: "raw=\xff\xfe user=joe"},
		{rule: "11.1 unusable names are skipped", from: []v1.EnvFromSource{fromMap("bad", "", nil)}, want: "ok=3"},
		{rule: "11.1 any printable name", env: []v1.EnvVar{{Name: "a b-c.d", Value: "1"}}, want: "a b-c.d=1"},
		{rule: "11.2 missing", from: []v1.EnvFromSource{fromMap("none", "", nil)}, want: "!envFrom[0]: config map none: not found"},
		{rule: "11.2 missing optional", from: []v1.EnvFromSource{fromMap("none", "", yes)}, want: ""},
		{rule: "11.2 missing secret", from: []v1.EnvFromSource{fromSecret("none", "")}, want: "!envFrom[0]: secret none: not found"},
		{rule: "11.2 empty source", from: []v1.EnvFromSource{{}}, want: "!envFrom[0]: it names neither a config map nor a secret"},
		{rule: "11.2 key", env: []v1.EnvVar{mapKey("V", "m", "a", nil), secretKey("U", "s", "user", nil)}, want: "V=2 U=joe"},
		{rule: "11.2 missing key", env: []v1.EnvVar{mapKey("V", "m", "no", nil)}, want: "!environment variable V: couldn't find key no in ConfigMap m"},
		{rule: "11.2 missing key in secret", env: []v1.EnvVar{secretKey("V", "s", "no", nil)}, want: "!environment variable V: couldn't find key no in Secret s"},
		{rule: "11.2 missing optional keys", env: []v1.EnvVar{mapKey("V", "m", "no", yes), secretKey("W", "s", "no", yes), secretKey("X", "none", "no", yes), {Name: "A"}}, want: "A="},
		{rule: "11.2 empty value is a value", env: []v1.EnvVar{secretKey("V", "empty", "e", nil)}, want: "V="},
		{rule: "11.3 not expanded", env: []v1.EnvVar{{Name: "a", Value: "1"}, mapKey("V", "m", "b", nil), {Name: "W", Value: "$(V)$(a)"}}, want: "a=1 V=1 W=11"},
		{rule: "11.4 services are known, and last", env: []v1.EnvVar{{Name: "A", Value: "$(SVC)"}, {Name: "MINE", Value: "1"}}, want: "A=ip MINE=1 SVC=ip"},
		{rule: "11.7 file", env: []v1.EnvVar{fileKey("A", "f", "A", nil), fileKey("B", "f", "B", nil)}, want: "A=one B=two\nlines"},
		{rule: "11.7 empty key", env: []v1.EnvVar{fileKey("A", "f", "E", nil)}, want: `!environment variable A: couldn't find key E in file "f" of volume "v"`},
		{rule: "11.7 no key", env: []v1.EnvVar{fileKey("A", "f", "no", nil)}, want: `!environment variable A: couldn't find key no in file "f" of volume "v"`},
		{rule: "11.7 no file", env: []v1.EnvVar{fileKey("A", "g", "A", nil)}, want: `!environment variable A: volume "v" has no file "g"`},
		{rule: "11.7 optional", env: []v1.EnvVar{fileKey("A", "f", "E", yes), fileKey("B", "f", "no", yes), fileKey("C", "g", "A", yes), {Name: "D", Value: "1"}}, want: "D=1"},
		{rule: "zero byte", env: []v1.EnvVar{secretKey("V", "zero", "z", nil)}, want: "!environment variable V: the value holds a zero byte"},
		{rule: "zero byte from envFrom", from: []v1.EnvFromSource{fromSecret("zero", "")}, want: "!envFrom[0]: key z of Secret zero: the value holds a zero byte"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			e, err := envOf(v1.Container{Name: "c", EnvFrom: tc.from, Env: tc.env}, s, servicesFor(tc.rule)...)
			if message, bad := strings.CutPrefix(tc.want, "!"); bad {
				if err == nil || err.Error() != message {
					t.Fatalf("err %v, want %s", err, message)
				}
				return
			}
			if err != nil || text(e) != tc.want {
				t.Fatalf("%q, err %v; want %q", text(e), err, tc.want)
			}
		})
	}
}

// servicesFor gives the one case about services some.
func servicesFor(rule string) []criconfig.Variable {
	if !strings.Contains(rule, "services") {
		return nil
	}
	return []criconfig.Variable{{Name: "SVC", Value: "ip"}, {Name: "MINE", Value: "theirs"}}
}

// spec/runtime.md 11.1: unusable names are told, by key only.
func TestSkippedNames(t *testing.T) {
	s := sources{secrets: map[string]map[string][]byte{"s": {"a=b": []byte("hunter2"), "\n": []byte("hunter2"), "ok": nil}}}
	e, err := envOf(v1.Container{EnvFrom: []v1.EnvFromSource{fromSecret("s", "")}}, s)
	if err != nil {
		t.Fatal(err)
	}
	want := []criconfig.Skipped{{Kind: "Secret", Name: "s", Keys: []string{`"\n"`, `"a=b"`}}}
	if d := cmp.Diff(want, e.Skipped); d != "" {
		t.Errorf("11.1 (-want +got):\n%s", d)
	}
}

// spec/runtime.md 11.2: optional forgives absence, not a source that is down.
func TestSourceDown(t *testing.T) {
	s := sources{err: context.DeadlineExceeded}
	yes := ptr.To(true)
	for _, c := range []v1.Container{
		{EnvFrom: []v1.EnvFromSource{fromMap("m", "", yes)}},
		{Env: []v1.EnvVar{secretKey("A", "s", "k", yes)}},
		{Env: []v1.EnvVar{mapKey("A", "s", "k", yes)}},
	} {
		if _, err := envOf(c, s); err == nil || !strings.Contains(err.Error(), "deadline") {
			t.Errorf("11.2: err %v", err)
		}
	}
}

// More than a program can be given is refused, before memory is spent on it.
func TestAbsurdSizes(t *testing.T) {
	most := 32 * os.Getpagesize()
	doubling := []v1.EnvVar{{Name: "V0", Value: "0123456789abcdef"}}
	for i := range 60 {
		doubling = append(doubling, v1.EnvVar{Name: fmt.Sprint("V", i+1), Value: strings.Repeat(fmt.Sprintf("$(V%d)", i), 2)})
	}
	many := make([]v1.EnvVar, 100)
	for i := range many {
		many[i] = v1.EnvVar{Name: fmt.Sprint("V", i), Value: strings.Repeat("x", 100<<10)}
	}
	for name, tc := range map[string]struct {
		env  []v1.EnvVar
		want string
	}{
		"1 MB in one value": {[]v1.EnvVar{{Name: "A", Value: strings.Repeat("s", 1<<20)}}, "environment variable A: longer than"},
		"1 MB in many":      {many[:10], ""},
		"the longest":       {[]v1.EnvVar{{Name: "A", Value: strings.Repeat("s", most-3)}}, ""},
		"one byte more":     {[]v1.EnvVar{{Name: "A", Value: strings.Repeat("s", most-2)}}, "environment variable A: with its value"},
		"doubling":          {doubling, "longer than"},
		"10 MB in all":      {many, "environment is larger than"},
		"name":              {[]v1.EnvVar{{Name: strings.Repeat("n", 1<<20), Value: "1"}}, "..."},
	} {
		_, err := envOf(v1.Container{Env: tc.env}, sources{})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 300) {
			t.Errorf("%s: err %.400v, want %q", name, err, tc.want)
		}
	}
	pod := newPod(func(p *v1.Pod) {
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: strings.Repeat("s", most/2)}}
		p.Spec.Containers[0].Args = []string{strings.Repeat("$(A)", 1000)}
	})
	if _, err := build(t, pod); err == nil || !strings.HasPrefix(err.Error(), "args[0]: longer than") {
		t.Errorf("args: %.300v", err)
	}
	pod.Spec.Containers[0].Args = nil
	pod.Spec.Containers[0].Command = make([]string, 1000)
	for i := range pod.Spec.Containers[0].Command {
		pod.Spec.Containers[0].Command[i] = "$(A)"
	}
	if _, err := build(t, pod); err == nil || !strings.HasPrefix(err.Error(), "command: more than") {
		t.Errorf("command: %.300v", err)
	}
}

// No value of a secret or a file is left in a message.
func TestRedactRemovesValuesOfSecretsAndFiles(t *testing.T) {
	s := sources{
		secrets: map[string]map[string][]byte{"s": {"password": []byte("hunter2"), "long": []byte("hunter2-and-more"), "lines": []byte("line one\n"), "short": []byte("no")}},
		files:   map[string]string{"v/f": "K='from-file'"},
	}
	e, err := envOf(v1.Container{
		EnvFrom: []v1.EnvFromSource{fromSecret("s", "")},
		Env: []v1.EnvVar{
			{Name: "URL", Value: "http://joe:$(password)@h"},
			{Name: "OPEN", Value: "visible"},
			fileKey("F", "f", "K", nil),
			{Name: "short", Value: "overwritten"},
		},
	}, s)
	if err != nil {
		t.Fatal(err)
	}
	in := `exec "hunter2-and-more" hunter2 http://joe:hunter2@h line one "line one\n" from-file visible no overwritten`
	want := `exec "[redacted]" [redacted] [redacted] [redacted] "[redacted]" [redacted] visible no overwritten`
	if got := e.Redact(in); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var none *criconfig.Environment
	if none.Redact(in) != in {
		t.Error("nothing is known without an environment")
	}
}

// spec/runtime.md 11.7: the grammar.
func TestFileKey(t *testing.T) {
	for _, tc := range []struct{ content, want string }{
		{"K='v'", "v"},
		{"\n  \n# K='no'\n \t# x\nK='v'\n", "v"},
		{"A='1'\nK='v'\nK='second'", "v"},
		{"K='v' # comment", "v"},
		{"K='v'# comment\r\n", "v"},
		{"K='a\nb=\n# c'\n", "a\nb=\n# c"},
		{`K='$(A) \n "x"'`, `$(A) \n "x"`},
		{"K= 'v'\n", ""},
		{"K=\n", ""},
		{"K=", ""},
		{"K=''\n", ""},
		{"A='1'\n", ""},
		{"", ""},
		{"K='v'\nbroken", "v"},
		{"K = 'v'", "!line 1: "},
		{"A='1\n2'\nK ='v'", "!line 3: "},
		{"K=v", "!line 1: the value must be in single quotes"},
		{`K="v"`, "!line 1: the value must be in single quotes"},
		{"\nK='v", "!line 2: the closing quote is missing"},
		{"K='v'w", "!line 1: something follows the closing quote"},
		{"broken\nK='v'", "!line 1: want NAME='value'"},
		{"='v'", "!line 1: want NAME='value'"},
		{"export K='v'", "!line 1: "},
	} {
		got, err := criconfig.FileKey(tc.content, "K")
		if message, bad := strings.CutPrefix(tc.want, "!"); bad {
			if err == nil || !strings.HasPrefix(err.Error(), message) {
				t.Errorf("11.7: %q: %q, err %v", tc.content, got, err)
			}
		} else if err != nil || got != tc.want {
			t.Errorf("11.7: %q: %q, err %v; want %q", tc.content, got, err, tc.want)
		}
	}
}

func FuzzFileKey(f *testing.F) {
	f.Add("A='1'\nK='secret'\n", "K")
	f.Add("K= \nK='", "K")
	f.Fuzz(func(t *testing.T, content, key string) {
		value, err := criconfig.FileKey(content, key)
		if err != nil && len(err.Error()) > 100 {
			t.Errorf("an error of %d bytes: %v", len(err.Error()), err)
		}
		if value != "" && !strings.Contains(content, key+"='"+value+"'") {
			t.Errorf("%q is no value of %q in %q", value, key, content)
		}
	})
}

// spec/runtime.md 11.5: one pod address per family, in the node's order.
func TestPodIPOrder(t *testing.T) {
	for _, tc := range []struct {
		host, pod []string
		want      string
	}{
		{[]string{"1.1.1.1", "::1"}, []string{"fd00::1", "10.0.0.1", "10.0.0.2"}, "10.0.0.1,fd00::1"},
		{[]string{"::1"}, []string{"10.0.0.1", "fd00::1", "fd00::2"}, "fd00::1,10.0.0.1"},
		{nil, []string{"fd00::1", "10.0.0.1"}, "fd00::1,10.0.0.1"},
		{[]string{"::1"}, []string{"10.0.0.1"}, "10.0.0.1"},
		{nil, nil, ""},
	} {
		got, err := criconfig.FieldValue(&v1.Pod{}, "status.podIPs", criconfig.Downward{HostIPs: tc.host, PodIPs: tc.pod})
		if err != nil || got != tc.want {
			t.Errorf("11.5: %v on %v: %q, err %v; want %q", tc.pod, tc.host, got, err, tc.want)
		}
	}
}

// spec/runtime.md 11.8.
func TestServiceVariables(t *testing.T) {
	service := func(namespace, name, ip string, ports ...v1.ServicePort) *v1.Service {
		return &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1.ServiceSpec{ClusterIP: ip, Ports: ports},
		}
	}
	all := []*v1.Service{
		service("default", "kubernetes", "10.0.0.1", v1.ServicePort{Name: "https", Port: 443, Protocol: v1.ProtocolTCP}),
		service("ns", "my-db", "fd00::5", v1.ServicePort{Port: 53, Protocol: v1.ProtocolUDP}, v1.ServicePort{Name: "q-l", Port: 99}),
		service("ns", "headless", "None", v1.ServicePort{Port: 1}),
		service("ns", "external", "", v1.ServicePort{Port: 1}),
		service("other", "foreign", "10.0.0.9", v1.ServicePort{Port: 1}),
		service("ns", "empty", "10.0.0.8"),
	}
	show := func(links *bool) string {
		var out []string
		pod := newPod(func(p *v1.Pod) { p.Spec.EnableServiceLinks = links })
		for _, v := range criconfig.ServiceVariables(pod, all) {
			out = append(out, v.Name+"="+v.Value)
		}
		return strings.Join(out, "\n")
	}
	api := `KUBERNETES_SERVICE_HOST=10.0.0.1
KUBERNETES_SERVICE_PORT=443
KUBERNETES_SERVICE_PORT_HTTPS=443
KUBERNETES_PORT=tcp://10.0.0.1:443
KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443
KUBERNETES_PORT_443_TCP_PROTO=tcp
KUBERNETES_PORT_443_TCP_PORT=443
KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1`
	own := `
MY_DB_SERVICE_HOST=fd00::5
MY_DB_SERVICE_PORT=53
MY_DB_SERVICE_PORT_Q_L=99
MY_DB_PORT=udp://[fd00::5]:53
MY_DB_PORT_53_UDP=udp://[fd00::5]:53
MY_DB_PORT_53_UDP_PROTO=udp
MY_DB_PORT_53_UDP_PORT=53
MY_DB_PORT_53_UDP_ADDR=fd00::5
MY_DB_PORT_99_TCP=tcp://[fd00::5]:99
MY_DB_PORT_99_TCP_PROTO=tcp
MY_DB_PORT_99_TCP_PORT=99
MY_DB_PORT_99_TCP_ADDR=fd00::5`
	if d := cmp.Diff(api+own, show(nil)); d != "" {
		t.Errorf("11.8 (-want +got):\n%s", d)
	}
	if d := cmp.Diff(api, show(ptr.To(false))); d != "" {
		t.Errorf("11.8 without links (-want +got):\n%s", d)
	}
	all = append(all, service("ns", "kubernetes", "10.0.0.7", v1.ServicePort{Port: 1}))
	if got := show(nil); !strings.HasPrefix(got, "KUBERNETES_SERVICE_HOST=10.0.0.7\n") {
		t.Errorf("11.8: a service of the pod's own namespace comes first: %s", got)
	}
}
