package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identity is on whose behalf a plugin is asked: a service account's or, if it is zero, the node's.
type identity struct {
	namespace, name string
	account         types.UID
	annotations     map[string]string
	// token is set if answers are cached per token.
	token string
}

// digest distinguishes identities without revealing a token.
func (i identity) digest() [sha256.Size]byte {
	if i.account == "" {
		return [sha256.Size]byte{}
	}
	// Strings and maps of strings always encode; the keys of maps are sorted.
	text, _ := json.Marshal([]any{i.namespace, i.name, i.account, i.annotations, i.token})
	return sha256.Sum256(text)
}

// identify says on whose behalf a plugin is asked for a pod, and whether it is asked at all.
func (s *Source) identify(ctx context.Context, p *provider, pod *v1.Pod) (who identity, asked bool, err error) {
	if p.tokens == nil {
		return identity{}, true, nil
	}
	if pod.Spec.ServiceAccountName == "" {
		return identity{}, !p.tokens.needed, nil
	}
	account, err := s.options.Accounts.ServiceAccount(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return identity{}, false, err
	}
	who = identity{namespace: pod.Namespace, name: account.Name, account: account.UID}
	if who.annotations, err = p.tokens.annotations(account); err != nil {
		return identity{}, false, err // the plugin is not meant for this account
	}
	if p.tokens.perToken {
		who.token, err = s.token(ctx, p, pod)
	}
	return who, err == nil, err // with the account, as far as it is known
}

// annotations returns the annotations that a plugin is told.
func (r *tokenRules) annotations(account *v1.ServiceAccount) (map[string]string, error) {
	out := map[string]string{}
	for _, key := range r.required {
		value, ok := account.Annotations[key]
		if !ok {
			return nil, fmt.Errorf("service account %s/%s has no annotation %q, which is required", account.Namespace, account.Name, key)
		}
		out[key] = value
	}
	for _, key := range r.optional {
		if value, ok := account.Annotations[key]; ok {
			out[key] = value
		}
	}
	return out, nil
}

func (s *Source) token(ctx context.Context, p *provider, pod *v1.Pod) (string, error) {
	return s.options.Tokens.Token(ctx, pod, &v1.ServiceAccountTokenProjection{Audience: p.tokens.audience})
}
