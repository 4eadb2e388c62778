package pods_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// shelf is an object getter with fixed objects of the namespace default.
type shelf struct {
	mu         sync.Mutex
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
}

func newShelf() *shelf {
	return &shelf{configMaps: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{}}
}

func (s *shelf) GetConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.configMaps[name]; o != nil && namespace == "default" {
		return o, nil
	}
	return nil, fmt.Errorf("no such file: %w", runtime.ErrNotFound)
}

func (s *shelf) GetSecret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.secrets[name]; o != nil && namespace == "default" {
		return o, nil
	}
	return nil, fmt.Errorf("no such file: %w", runtime.ErrNotFound)
}

func (s *shelf) secret(name string, data map[string]string) {
	o := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid"}, Data: map[string][]byte{}}
	for k, v := range data {
		o.Data[k] = []byte(v)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[name] = o
}

// pullSecret makes a pull secret for example.com.
func (s *shelf) pullSecret(name, password string) {
	s.secret(name, map[string]string{
		v1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{"example.com":{"username":"u","password":%q}}}`, password),
	})
	s.secrets[name].Type = v1.SecretTypeDockerConfigJson
}

func secretEnv(variable, name, key string) v1.EnvVar {
	return v1.EnvVar{Name: variable, ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key,
	}}}
}

// env returns the environment the newest container of a name was created with.
func (w *world) env(name string) string {
	w.t.Helper()
	var out []string
	for _, c := range w.fake.Calls(fake.Match{Method: fake.CreateContainer, Container: name}) {
		out = nil
		for _, kv := range c.Request.(*runtimeapi.CreateContainerRequest).GetConfig().GetEnvs() {
			out = append(out, kv.GetKey()+"="+string(kv.GetValue()))
		}
	}
	return strings.Join(out, " ")
}

// spec/runtime.md 11.1, 11.2, 11.7, 11.8: environments from objects, files and
// services; a missing one holds back only its own container, until it is there.
func TestEnvironmentSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, services := newShelf(), &serviceList{}
		w := newWorld(t, nil, func(o *pods.Options) { o.Objects, o.Services = objects, services })
		objects.configMaps["settings"] = &v1.ConfigMap{Data: map[string]string{"MODE": "fast", "bad\n": "x"}}
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "shared", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			c := &p.Spec.Containers[0]
			c.EnvFrom = []v1.EnvFromSource{{Prefix: "CFG_", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}}}
			c.Env = []v1.EnvVar{
				secretEnv("PASSWORD", "db", "password"),
				{Name: "FILE", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "shared", Path: "sub/env", Key: "K"}}},
			}
			p.Spec.Containers = append(p.Spec.Containers, container("good"))
		})
		fails := func(message string) {
			t.Helper()
			r := w.sync(pod)
			if got := starts(r)[0]; got.Reason != "CreateContainerConfigError" || got.Message != message {
				t.Errorf("11.2: %s: %s, want %s", got.Reason, got.Message, message)
			}
			if !w.events.has("Warning Failed spec.containers{app} Error: " + message) {
				t.Errorf("11.2: no event about %s in %v", message, w.events.list())
			}
			pass(600 * second)
		}
		fails("services have not yet been read at least once, cannot construct envs")
		services.synced = true
		fails("environment variable PASSWORD: secret default/db: not found")
		objects.secret("db", map[string]string{"user": "u"})
		fails("environment variable PASSWORD: couldn't find key password in Secret db")
		objects.secret("db", map[string]string{"password": "hunter2"})
		fails(`environment variable FILE: volume "shared" has no file "sub/env"`)
		volume := filepath.Join(w.opts.RootDir, "pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/shared")
		if err := os.MkdirAll(filepath.Join(volume, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(volume, "sub/env"), []byte("K='from file'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.syncAll(pod)
		w.wantState(pod, "app:running good:running")
		if got, want := w.env("app"), "CFG_MODE=fast PASSWORD=hunter2 FILE=from file API_SERVICE_HOST=10.0.0.1"; !strings.HasPrefix(got, want) {
			t.Errorf("11.1: %s, want %s", got, want)
		}
		if want := `Warning InvalidEnvironmentVariableNames  Keys ["CFG_bad\n"] from the EnvFrom ConfigMap default/settings were skipped`; !w.events.has(want) {
			t.Errorf("11.1: no event %s in %v", want, w.events.list())
		}
	})
}

// serviceList has one service of the namespace default.
type serviceList struct{ synced bool }

func (s *serviceList) Services(namespace string) ([]*v1.Service, bool) {
	if namespace != "default" || !s.synced {
		return nil, s.synced
	}
	return []*v1.Service{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "api"},
		Spec:       v1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []v1.ServicePort{{Port: 1}}},
	}}, true
}

// spec/runtime.md 11.8: a static pod does not wait for services.
func TestStaticPodWithoutServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(o *pods.Options) { o.Services = &serviceList{} })
		pod := newPod(func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} })
		w.syncAll(pod)
		w.wantState(pod, "app:running")
	})
}

// A file key leaves its volume by no path and no link.
func TestFileKeyStaysInVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		outside := filepath.Join(w.opts.RootDir, "secret-file")
		if err := os.WriteFile(outside, []byte("K='hunter2'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{
				{Name: "shared", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: w.opts.RootDir}}},
			}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
		})
		w.syncAll(pod)
		volume := filepath.Join(w.opts.RootDir, "pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/shared")
		for link, target := range map[string]string{"abs": outside, "up": "../../../../../secret-file", "dir": w.opts.RootDir} {
			if err := os.Symlink(target, filepath.Join(volume, link)); err != nil {
				t.Fatal(err)
			}
		}
		for i, ref := range []v1.FileKeySelector{
			{VolumeName: "shared", Path: "abs"},
			{VolumeName: "shared", Path: "up"},
			{VolumeName: "shared", Path: "dir/secret-file"},
			{VolumeName: "shared", Path: "../../../../../secret-file"},
			{VolumeName: "shared", Path: outside},
			{VolumeName: "shared", Path: "."},
			{VolumeName: "host", Path: "secret-file"},
			{VolumeName: "none", Path: "secret-file"},
		} {
			ref.Key, ref.Optional = "K", ptr.To(true)
			bad := pod.DeepCopy()
			bad.Spec.Containers = append(bad.Spec.Containers, container(fmt.Sprint("bad", i)))
			bad.Spec.Containers[1].Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FileKeyRef: &ref}}}
			r := w.sync(bad)
			if len(starts(r)) != 1 || starts(r)[0].Reason != "CreateContainerConfigError" {
				t.Errorf("11.7: %s of %s: %+v", ref.Path, ref.VolumeName, starts(r))
			}
			if text := fmt.Sprint(r.Err, w.events.list()); strings.Contains(text, "hunter2") || strings.Contains(strings.ReplaceAll(text, fmt.Sprintf("%q", outside), ""), w.opts.RootDir) {
				t.Errorf("11.7: a path of the node or a value is shown: %s", text)
			}
			pass(600 * second)
		}
	})
}

// logSink keeps what is logged.
type logSink struct {
	mu    sync.Mutex
	lines []string
}

func (l *logSink) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 10})
}

func (l *logSink) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// The content of a secret is in no event, error, waiting message or log, wherever
// it is used and whatever goes wrong.
func TestNoSecretIsShown(t *testing.T) {
	const password, pull = "hunter2", "tr0ub4dor"
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		inject *fake.Fault
	}{
		"start quotes an argument": {
			change: func(p *v1.Pod) { p.Spec.Containers[0].Args = []string{"--password=$(PASSWORD)"} },
			inject: &fake.Fault{Match: fake.Match{Method: fake.StartContainer}, Effect: fake.Effect{Err: fmt.Errorf(`exec: "--password=%s": not found`, password)}},
		},
		"create quotes the environment": {
			inject: &fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Err: fmt.Errorf("env PASSWORD=%s", password)}},
		},
		"sub-path": {
			change: func(p *v1.Pod) {
				p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
				p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", SubPathExpr: "../$(PASSWORD)"}}
			},
		},
		"zero byte": {
			change: func(p *v1.Pod) {
				p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, secretEnv("Z", "db", "zero"))
			},
		},
		"1 MB": {
			change: func(p *v1.Pod) {
				p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, secretEnv("Z", "db", "big"))
			},
		},
		"pull quotes the credential": {
			change: func(p *v1.Pod) { p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}} },
			inject: &fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Err: fmt.Errorf("GET https://u:%s@example.com: 401", pull)}},
		},
		"broken pull secret": {
			change: func(p *v1.Pod) { p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "broken"}} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects, logs := newShelf(), &logSink{}
				w := newWorld(t, nil, func(o *pods.Options) { o.Objects, o.Logger = objects, logs.logger() })
				objects.secret("db", map[string]string{"password": password, "zero": password + "\x00", "big": strings.Repeat(password, 1<<17)})
				objects.pullSecret("pull", pull)
				objects.pullSecret("broken", pull)
				objects.secrets["broken"].Data[v1.DockerConfigJsonKey] = []byte(pull)
				if tc.inject != nil {
					w.fake.Inject(*tc.inject)
				}
				pod := newPod(func(p *v1.Pod) {
					p.Spec.Containers[0].Env = []v1.EnvVar{secretEnv("PASSWORD", "db", "password")}
					if tc.change != nil {
						tc.change(p)
					}
				})
				r := w.sync(pod)
				if r.Err == nil || len(starts(r)) != 1 || starts(r)[0].Err == nil {
					t.Fatalf("nothing went wrong: %+v", r)
				}
				text := fmt.Sprintf("%v %+v %v %v %v", r.Err, r, w.m.WaitingReasons(pod.UID), w.events.list(), logs.text())
				for _, secret := range []string{password, pull} {
					if strings.Contains(text, secret) {
						t.Errorf("shown: %.2000s", text)
					}
				}
				if len(text) > 10000 {
					t.Errorf("%d bytes of messages", len(text))
				}
				t.Logf("%s: %s", starts(r)[0].Reason, starts(r)[0].Message)
			})
		})
	}
}

// spec/runtime.md 9.11, 9.6, edge case 17 and 18, seen from pods.
func TestPullSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := newShelf()
		objects.pullSecret("good", "right")
		objects.pullSecret("bad", "wrong")
		rt := fake.Options{Registry: func(_ string, auth *runtimeapi.AuthConfig) fake.Pull {
			if auth.GetPassword() == "right" {
				return fake.Pull{}
			}
			return fake.Pull{Err: fmt.Errorf("pull access denied")}
		}}
		w := newWorldOn(t, rt, func(o *pods.Options) { o.Objects = objects })
		start := func(uid types.UID, policy v1.PullPolicy, secrets ...string) pods.Action {
			t.Helper()
			r := w.sync(newPod(func(p *v1.Pod) {
				p.UID, p.Name = uid, string(uid)
				p.Spec.Containers[0].ImagePullPolicy = policy
				for _, s := range secrets {
					p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
				}
			}))
			return starts(r)[0]
		}
		if r := start("none", v1.PullIfNotPresent); r.Reason != "ErrImagePull" {
			t.Errorf("10: without a secret: %+v", r)
		}
		if r := start("wrong", v1.PullIfNotPresent, "bad", "", "missing"); r.Reason != "ErrImagePull" || r.Message != "pull access denied" {
			t.Errorf("9.6: with a wrong one: %+v", r)
		}
		missing := "Warning FailedToRetrieveImagePullSecret  Unable to retrieve some image pull secrets (missing); attempting to pull the image may not succeed."
		if !w.events.has(missing) {
			t.Errorf("9.11: no event about the missing secret: %v", w.events.list())
		}
		if r := start("right", v1.PullIfNotPresent, "bad", "good"); r.Err != nil {
			t.Errorf("9.6: with the right one: %+v", r)
		}
		if r := start("never", v1.PullNever); r.Reason != "ErrImageNeverPull" {
			t.Errorf("edge case 18: %+v", r)
		}
		w.restart()
		if r := start("later", v1.PullNever); r.Reason != "ErrImageNeverPull" {
			t.Errorf("edge case 18, after a restart: %+v", r)
		}
		if r := start("same", v1.PullNever, "good"); r.Err != nil {
			t.Errorf("9.9: with the secret: %+v", r)
		}
		if err := w.fake.RemoveImage(t.Context(), imageSpec("example.com/app:1")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.fake.PullImage(t.Context(), imageSpec("example.com/other:1"), &runtimeapi.AuthConfig{Password: "right"}, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.m.PruneImageRecords(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if files, err := filepath.Glob(filepath.Join(w.opts.RootDir, "images/*/*")); err != nil || len(files) != 0 {
			t.Errorf("9.9: records of an image that is gone: %v", files)
		}
	})
}
