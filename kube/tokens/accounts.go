package tokens

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/kube/offline"
)

const (
	// accountFresh is the age at which a service account is read again.
	accountFresh = 10 * time.Second
	// accountLife is how long a service account that cannot be read again stays valid.
	accountLife = time.Hour
)

// Accounts reads the service accounts of pods (KK9). All methods are safe for concurrent use.
type Accounts struct {
	options Options
	read    *keeper[accountKey, *v1.ServiceAccount]
}

type accountKey struct{ namespace, name string }

// entry names a service account's entry in the cache.
func (k accountKey) entry() offline.Entry {
	return offline.Entry{Kind: offline.ServiceAccount, Namespace: k.namespace, Name: k.name}
}

// NewAccounts returns a reader that has read nothing yet.
func NewAccounts(o Options) (*Accounts, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Accounts{options: o, read: newKeeper(o, shelf[accountKey, *v1.ServiceAccount]{entry: accountKey.entry})}, nil
}

// ServiceAccount returns a service account, read at most 10 s ago or, while the API server cannot
// be read, at most an hour ago; with a cache, longer ago. Callers must not change it. The error
// wraps the API server's, and is repeated without a new request until a pause is over.
func (a *Accounts) ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	account, err := a.read.get(ctx, accountKey{namespace, name}, question[*v1.ServiceAccount]{
		ask: func(ctx context.Context) (answer[*v1.ServiceAccount], error) {
			asked := a.options.Clock.Now()
			got, err := a.options.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
			return answer[*v1.ServiceAccount]{value: got, due: asked.Add(accountFresh), expires: asked.Add(accountLife)}, err
		},
		log:  []any{"namespace", namespace, "serviceAccount", name},
		void: answers.NotFound,
	})
	if err != nil {
		return nil, fmt.Errorf("service account %s/%s: %w", namespace, name, err)
	}
	return account, nil
}
