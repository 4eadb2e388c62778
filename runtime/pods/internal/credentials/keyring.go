package credentials

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/registrykey"
)

// Credential is a credential for a registry, and its origin.
type Credential struct {
	// Auth is nil if the credential itself cannot be had now: only its origin is known.
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
	secrets, node registrykey.Ring[Credential]
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
		add(&k.secrets, found, &SecretID{UID: s.UID, Namespace: s.Namespace, Name: s.Name})
	}
	found, err := node.parse()
	if err != nil {
		return nil, fmt.Errorf("the node's pull credentials: %w", err)
	}
	add(&k.node, found, nil)
	return k, nil
}

func add(r *registrykey.Ring[Credential], found []keyed, from *SecretID) {
	for _, f := range found {
		r.Add(f.key, Credential{Auth: f.auth, Secret: from})
	}
}

// Lookup returns the credentials for a repository as [registrykey.Repository] names it, in
// the order in which they are to be tried.
func (k *Keyring) Lookup(repository string) []Credential {
	return append(k.secrets.Lookup(repository), k.node.Lookup(repository)...)
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
	// The longest first: replacing a part of a value first would leave the rest of it visible.
	slices.SortStableFunc(hidden, func(a, b string) int { return len(b) - len(a) })
	for _, s := range hidden {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}
