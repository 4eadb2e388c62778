package pullrecords

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods/internal/credentials"
)

// Record says which pods may use one image of the store.
type Record struct {
	// Image is the image's ID in the store.
	Image string `json:"image"`
	// Repositories has what the image was pulled from. Without an entry no
	// pod has shown that it may pull it from there.
	Repositories map[string]Access `json:"repositories,omitempty"`
}

// Access says which pods may use an image from one repository.
type Access struct {
	// NodeWide is true if all pods of the node may: it was pulled anonymously
	// or with the node's credentials.
	NodeWide bool `json:"nodeWide,omitempty"`
	// Secrets it was pulled with, the oldest first.
	Secrets []SecretUse `json:"secrets,omitempty"`
}

// SecretUse is a secret and the hash of the credential that was taken from it.
type SecretUse struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Hash      string    `json:"hash"`
}

// maxSecrets bounds the secrets kept per repository; a pod
// with a forgotten secret pulls again.
const maxSecrets = 100

// NeedsCredentials reports whether only credentials can decide.
func (r *Record) NeedsCredentials(repository string) bool {
	a := r.Repositories[repository]
	return !a.NodeWide && len(a.Secrets) > 0
}

// Allows reports whether a pod with these credentials may use the image: one of
// them is known, by content or by the secret it is from. Of one without content only the origin counts.
func (r *Record) Allows(repository string, have []credentials.Credential) (ok bool, by *credentials.Credential) {
	access := r.Repositories[repository]
	if access.NodeWide {
		return true, nil
	}
	for i := range have {
		if have[i].Secret == nil {
			continue
		}
		use := useOf(have[i])
		for _, known := range access.Secrets {
			if have[i].Auth != nil && known.Hash == use.Hash || known.same(use) {
				return true, &have[i]
			}
		}
	}
	return false, nil
}

// With returns a copy of the record with one more successful use: of a credential, or
// of none.
func (r *Record) With(repository string, by *credentials.Credential) *Record {
	out := &Record{Image: r.Image, Repositories: map[string]Access{}}
	for name, a := range r.Repositories {
		out.Repositories[name] = a
	}
	access := out.Repositories[repository]
	switch {
	case access.NodeWide:
	case by == nil || by.Secret == nil:
		access = Access{NodeWide: true}
	default:
		use := useOf(*by)
		access.Secrets = slices.DeleteFunc(slices.Clone(access.Secrets), use.same)
		access.Secrets = append(access.Secrets, use)
		access.Secrets = access.Secrets[max(0, len(access.Secrets)-maxSecrets):]
	}
	out.Repositories[repository] = access
	return out
}

// has reports whether this very use is recorded.
func (r *Record) has(repository string, by credentials.Credential) bool {
	return slices.Contains(r.Repositories[repository].Secrets, useOf(by))
}

func useOf(c credentials.Credential) SecretUse {
	return SecretUse{UID: c.Secret.UID, Namespace: c.Secret.Namespace, Name: c.Secret.Name, Hash: c.Hash()}
}

// same reports whether both are of the same secret, whatever its content.
func (u SecretUse) same(other SecretUse) bool {
	return u.UID == other.UID && u.Namespace == other.Namespace && u.Name == other.Name
}
