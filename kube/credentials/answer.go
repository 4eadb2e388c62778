package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/podwright/podwright/internal/registrykey"
)

// answer is a plugin's answer. It deliberately has no method that prints it.
type answer struct {
	// scope says for which images it is cached, life for how long; 0 means that it is not cached.
	scope kubeletv1.PluginCacheKeyType
	life  time.Duration
	auth  []entry
}

// entry is the credential of one key, as [registrykey.Normalize] returns keys.
type entry struct{ key, username, password string }

// request returns what a plugin is told about an image.
func request(p *provider, repository, token string, annotations map[string]string) ([]byte, error) {
	return json.Marshal(kubeletv1.CredentialProviderRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: p.apiVersion, Kind: requestKind},
		Image:    repository, ServiceAccountToken: token, ServiceAccountAnnotations: annotations,
	})
}

// parseAnswer parses what a plugin printed. Errors do not quote it, because any part of it may be
// secret.
func parseAnswer(p *provider, text []byte) (answer, error) {
	var r kubeletv1.CredentialProviderResponse
	if json.Unmarshal(text, &r) != nil {
		return answer{}, errors.New("its answer is no JSON object of the kind " + responseKind)
	}
	if r.Kind != responseKind || r.APIVersion != p.apiVersion {
		return answer{}, fmt.Errorf("its answer is not of the kind %s in apiVersion %s, as it was asked", responseKind, p.apiVersion)
	}
	a := answer{scope: r.CacheKeyType, life: p.life}
	if !slices.Contains(scopes(), a.scope) {
		return answer{}, fmt.Errorf("the cacheKeyType of its answer is none of %v", scopes())
	}
	if r.CacheDuration != nil {
		a.life = max(0, r.CacheDuration.Duration)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Auth)) {
		a.auth = append(a.auth, entry{registrykey.Normalize(key), r.Auth[key].Username, r.Auth[key].Password})
	}
	return a, nil
}

// scopes are what cached answers may apply to, in order of precedence: an image, its registry, everything.
func scopes() []kubeletv1.PluginCacheKeyType {
	return []kubeletv1.PluginCacheKeyType{
		kubeletv1.ImagePluginCacheKeyType, kubeletv1.RegistryPluginCacheKeyType, kubeletv1.GlobalPluginCacheKeyType,
	}
}

// within names the images of a scope that includes the repository.
func within(scope kubeletv1.PluginCacheKeyType, repository string) string {
	switch scope {
	case kubeletv1.ImagePluginCacheKeyType:
		return repository
	case kubeletv1.RegistryPluginCacheKeyType:
		registry, _, _ := strings.Cut(repository, "/")
		return registry
	}
	return ""
}
