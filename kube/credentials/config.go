package credentials

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
	configv1 "k8s.io/kubelet/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/registrykey"
)

// Versions of the configuration, and of requests to plugins. The older ones have no tokens.
const (
	configGroup  = "kubelet.config.k8s.io/"
	pluginGroup  = "credentialprovider.kubelet.k8s.io/"
	newest       = "v1"
	configKind   = "CredentialProviderConfig"
	requestKind  = "CredentialProviderRequest"
	responseKind = "CredentialProviderResponse"
)

func known(group, apiVersion string) bool {
	version, ok := strings.CutPrefix(apiVersion, group)
	return ok && (version == newest || version == "v1beta1" || version == "v1alpha1")
}

// provider is a plugin, and when it is run.
type provider struct {
	name string
	// images are the keys of the images for which it is run.
	images     []string
	life       time.Duration // of an answer that does not say
	apiVersion string
	args       []string
	env        []string // NAME=VALUE
	tokens     *tokenRules
}

// tokenRules say which token a plugin gets, and what else from the pod's service account.
type tokenRules struct {
	audience string
	// perToken caches answers per token; otherwise they apply to the whole service account.
	perToken bool
	// needed means that the plugin is not run without a service account.
	needed             bool
	required, optional []string // keys of annotations
}

// wants reports whether the plugin is run for a repository.
func (p *provider) wants(repository string) bool {
	for _, key := range p.images {
		if registrykey.Matches(key, repository) {
			return true
		}
	}
	return false
}

// parseConfig parses a CredentialProviderConfig, YAML or JSON. The error names all problems.
func parseConfig(text []byte) ([]*provider, error) {
	var c configv1.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return nil, err
	}
	var problems []error
	if c.Kind != configKind || !known(configGroup, c.APIVersion) {
		problems = append(problems, fmt.Errorf("it is apiVersion %q, kind %q: want %s, kind %s", c.APIVersion, c.Kind, configGroup+newest, configKind))
	}
	if len(c.Providers) == 0 {
		problems = append(problems, errors.New("it has no providers"))
	}
	var out []*provider
	for i := range c.Providers {
		p, errs := parseProvider(&c.Providers[i])
		for _, err := range errs {
			problems = append(problems, fmt.Errorf("providers[%d] %q: %w", i, c.Providers[i].Name, err))
		}
		out = append(out, p)
	}
	return out, errors.Join(problems...)
}

func parseProvider(c *configv1.CredentialProvider) (*provider, []error) {
	p := &provider{name: c.Name, apiVersion: c.APIVersion, args: c.Args}
	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !isFileName(c.Name) {
		complain("the name is that of the plugin's file: want one without slash and space")
	}
	if len(c.MatchImages) == 0 {
		complain("matchImages is empty: want the images that the plugin is for")
	}
	for _, pattern := range c.MatchImages {
		if err := checkPattern(pattern); err != nil {
			complain("matchImages %q: %w", pattern, err)
		}
		p.images = append(p.images, registrykey.Normalize(pattern))
	}
	switch {
	case c.DefaultCacheDuration == nil:
		complain("defaultCacheDuration is required")
	case c.DefaultCacheDuration.Duration < 0:
		complain("defaultCacheDuration %s is negative", c.DefaultCacheDuration.Duration)
	default:
		p.life = c.DefaultCacheDuration.Duration
	}
	if !known(pluginGroup, c.APIVersion) {
		complain("apiVersion %q is unknown: want %s", c.APIVersion, pluginGroup+newest)
	}
	for _, v := range c.Env {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.Contains(v.Value, "\x00") {
			complain("env %q: want a name without = and a value without NUL", v.Name)
		}
		p.env = append(p.env, v.Name+"="+v.Value)
	}
	if c.TokenAttributes != nil {
		var errs []error
		p.tokens, errs = parseTokens(c.TokenAttributes, c.APIVersion)
		problems = append(problems, errs...)
	}
	return p, problems
}

func parseTokens(c *configv1.ServiceAccountTokenAttributes, apiVersion string) (*tokenRules, []error) {
	r := &tokenRules{
		audience: c.ServiceAccountTokenAudience, perToken: c.CacheType == configv1.TokenServiceAccountTokenCacheType,
		required: c.RequiredServiceAccountAnnotationKeys, optional: c.OptionalServiceAccountAnnotationKeys,
	}
	var problems []error
	complain := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("tokenAttributes: "+format, args...))
	}
	if apiVersion != pluginGroup+newest {
		complain("apiVersion %q has no tokens: want %s", apiVersion, pluginGroup+newest)
	}
	if r.audience == "" {
		complain("serviceAccountTokenAudience is required")
	}
	if !r.perToken && c.CacheType != configv1.ServiceAccountServiceAccountTokenCacheType {
		complain("cacheType %q: want %s or %s", c.CacheType,
			configv1.ServiceAccountServiceAccountTokenCacheType, configv1.TokenServiceAccountTokenCacheType)
	}
	switch {
	case c.RequireServiceAccount == nil:
		complain("requireServiceAccount is required")
	case *c.RequireServiceAccount:
		r.needed = true
	case len(r.required) > 0:
		complain("requiredServiceAccountAnnotationKeys need requireServiceAccount: true")
	}
	seen := map[string]bool{}
	for _, keys := range [][]string{r.required, r.optional} {
		for _, key := range keys {
			if seen[key] {
				complain("the annotation %q is named twice", key)
			}
			seen[key] = true
			if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
				complain("%q is no key of an annotation", key)
			}
		}
	}
	return r, problems
}

func isFileName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || unicode.IsSpace(r) || unicode.IsControl(r)
	})
}

// checkPattern says what is wrong with an entry of matchImages: host, port and path, with globs
// only in the host's labels.
func checkPattern(pattern string) error {
	host, _, _ := strings.Cut(strings.TrimPrefix(cmp.Or(pattern, "/"), "https://"), "/")
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		if _, err := strconv.ParseUint(host[i+1:], 10, 16); err != nil {
			return errors.New("the port is not a number")
		}
		host = host[:i]
	}
	switch {
	case host == "":
		return errors.New("want a host, such as registry.example or *.registry.example:5000/team")
	case strings.ContainsFunc(pattern, unicode.IsSpace):
		return errors.New("it has a space")
	}
	for label := range strings.SplitSeq(host, ".") {
		if _, err := path.Match(label, ""); err != nil {
			return fmt.Errorf("%q: %w", label, err)
		}
	}
	return nil
}
