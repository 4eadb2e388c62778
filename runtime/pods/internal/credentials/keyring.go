package credentials

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Credential is what a registry may be shown, and its origin.
type Credential struct {
	Auth *runtimeapi.AuthConfig
	// Secret is its origin; nil for a credential of the node.
	Secret *SecretID
}

// SecretID names a secret.
type SecretID struct {
	UID             types.UID
	Namespace, Name string
}

// Hash tells equal credentials apart from others without holding them.
func (c Credential) Hash() string {
	h := sha256.New()
	for _, part := range []string{c.Auth.GetUsername(), c.Auth.GetPassword()} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Keyring holds the credentials one pod may use, those of its secrets before those
// of the node. The zero value holds none.
type Keyring struct {
	secrets, node ring
}

// ring is the credentials of one kind of source.
type ring struct {
	byKey map[string][]Credential
	// keys descending, so that longer paths come before their prefixes.
	keys []string
}

// New makes a keyring of a pod's pull secrets, in the pod's order, and of the
// node's own configuration. A broken one is an error
// (spec/runtime.md 10.1, 10.5).
func New(secrets []*v1.Secret, node NodeConfig) (*Keyring, error) {
	k := &Keyring{}
	for _, s := range secrets {
		found, err := parseSecret(s)
		if err != nil {
			return nil, fmt.Errorf("pull secret %s/%s: %w", s.Namespace, s.Name, err)
		}
		k.secrets.add(found, &SecretID{UID: s.UID, Namespace: s.Namespace, Name: s.Name})
	}
	found, err := node.parse()
	if err != nil {
		return nil, fmt.Errorf("the node's pull credentials: %w", err)
	}
	k.node.add(found, nil)
	k.secrets.sort()
	k.node.sort()
	return k, nil
}

func (r *ring) add(found []keyed, from *SecretID) {
	if r.byKey == nil {
		r.byKey = map[string][]Credential{}
	}
	for _, f := range found {
		r.byKey[f.key] = append(r.byKey[f.key], Credential{Auth: f.auth, Secret: from})
	}
}

func (r *ring) sort() {
	r.keys = slices.Sorted(maps.Keys(r.byKey))
	slices.Reverse(r.keys)
}

// Lookup returns the credentials for a repository as [Repository] names it, in
// the order in which they are to be tried.
func (k *Keyring) Lookup(repository string) []Credential {
	return append(k.secrets.lookup(repository), k.node.lookup(repository)...)
}

// defaultKey is the name under which clients keep the credential of the default
// registry. Its images have another name.
const defaultKey = "index.docker.io"

// lookup follows spec/runtime.md 10.4.
func (r *ring) lookup(repository string) []Credential {
	var out []Credential
	for _, key := range r.keys {
		if matches(key, repository) {
			out = append(out, r.byKey[key]...)
		}
	}
	if len(out) == 0 && strings.HasPrefix(repository, "docker.io/") {
		out = append(out, r.byKey[defaultKey]...)
	}
	return out
}

// Redact removes the content of the credentials from a message: runtimes and registries
// may quote it.
func Redact(text string, credentials []Credential) string {
	var hidden []string
	for _, c := range credentials {
		user, password := c.Auth.GetUsername(), c.Auth.GetPassword()
		plain := []byte(user + ":" + password)
		for _, form := range []string{
			password, base64.StdEncoding.EncodeToString(plain), base64.RawStdEncoding.EncodeToString(plain),
		} {
			if form != "" {
				hidden = append(hidden, form)
			}
		}
	}
	// The longest first: replacing a part first would keep the rest of the whole.
	slices.SortStableFunc(hidden, func(a, b string) int { return len(b) - len(a) })
	for _, s := range hidden {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}
