package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/pods/internal/credentials"
)

// ImageCredentials supplies registry credentials that are in no secret and no file: those
// of a cloud's identity service, or of credential plugins (spec/runtime.md 10.6).
type ImageCredentials interface {
	// Credentials returns the credentials that may be sent to a registry for an image, best
	// first; having none is not an error. It is called when a pod's credentials matter: before a
	// pull, and to decide whether a pod may use an image that is present. It is called from many
	// goroutines at once, may block for 70 s at most, and must return soon after ctx ends; it
	// should cache what it has found. It must not change the pod. After an error the image is
	// pulled with what was returned along with it and with the other credentials; the error is
	// shown in an event and must not quote secrets.
	Credentials(ctx context.Context, pod *v1.Pod, image string) ([]ImageCredential, error)
}

// ImageCredential is one credential for a registry.
type ImageCredential struct {
	Username, Password string
	// ServiceAccount is the UID of the pod's service account if the credential belongs to it:
	// other pods may then use the image only once they have shown credentials of their own
	// (spec/runtime.md 9.9). Empty: the credential is the node's, and all pods may use the image.
	ServiceAccount types.UID
	// Missing: the source fails to get the credential of ServiceAccount now. Nothing is pulled with it, but the pod keeps the
	// images that were pulled for the account.
	Missing bool
}

// accountPrefix marks a service account, as opposed to a secret, in records of pulls: no secret
// has a colon in its name.
const accountPrefix = "serviceaccount:"

// moreCredentials asks for credentials besides those of secrets and files. If the source
// fails, it raises an event, and the pod tries again soon (IN15).
func (s *podSync) moreCredentials(ctx context.Context, image string) []credentials.Credential {
	source := s.m.options.ImagePull.Credentials
	if source == nil {
		return nil
	}
	found, err := source.Credentials(ctx, s.pod, image)
	if err != nil && ctx.Err() == nil {
		s.credentialsMissing = true
		s.m.podEvent(s.pod, v1.EventTypeWarning, "FailedToRetrieveImageCredentials",
			"Unable to get credentials for image %q: %v; attempting to pull the image may not succeed.", image, err)
	}
	out := make([]credentials.Credential, 0, len(found))
	for _, c := range found {
		next := credentials.Credential{Auth: &runtimeapi.AuthConfig{Username: c.Username, Password: c.Password}}
		if c.Missing {
			next.Auth = nil
		}
		if c.ServiceAccount != "" {
			next.Secret = &credentials.SecretID{
				UID: c.ServiceAccount, Namespace: s.pod.Namespace, Name: accountPrefix + s.pod.Spec.ServiceAccountName,
			}
		}
		out = append(out, next)
	}
	return out
}
