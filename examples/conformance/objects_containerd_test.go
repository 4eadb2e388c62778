//go:build containerd

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/runtime"
)

// objects are the config maps and secrets of the folder objects, and one pull
// secret that opens the registry and one that does not.
type objects struct {
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
}

func readObjects(t *testing.T, registry string) *objects {
	t.Helper()
	o := &objects{configMaps: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{}}
	text, err := os.ReadFile("objects/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var m v1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &m); err == nil && m.Kind == "ConfigMap" {
			o.configMaps[m.Name] = &m
			continue
		}
		var s v1.Secret
		if err := yaml.UnmarshalStrict([]byte(document), &s); err != nil || s.Kind != "Secret" {
			t.Fatalf("neither a config map nor a secret: %v\n%s", err, document)
		}
		s.Data = map[string][]byte{}
		for k, v := range s.StringData { // as an API server does
			s.Data[k] = []byte(v)
		}
		o.secrets[s.Name] = &s
	}
	for name, password := range map[string]string{"registry": "pass", "wrong": "guess"} {
		config, err := json.Marshal(map[string]any{"auths": map[string]any{registry: map[string]string{"username": "user", "password": password}}})
		if err != nil {
			t.Fatal(err)
		}
		o.secrets[name] = &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: config}}
	}
	return o
}

func (o *objects) GetConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if m := o.configMaps[name]; m != nil && namespace == "default" {
		return m, nil
	}
	return nil, fmt.Errorf("config map %s/%s: %w", namespace, name, runtime.ErrNotFound)
}

func (o *objects) GetSecret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	if s := o.secrets[name]; s != nil && namespace == "default" {
		return s, nil
	}
	return nil, fmt.Errorf("secret %s/%s: %w", namespace, name, runtime.ErrNotFound)
}
