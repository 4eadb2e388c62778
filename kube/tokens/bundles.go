package tokens

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/kube/offline"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// bundleAge is the age at which a bundle is read again.
const bundleAge = time.Minute

// Bundles reads bundles of trust anchors (KK5, KK7). It is an engine's source of trust bundles. All
// methods are safe for concurrent use.
type Bundles struct {
	options Options
	bundles *keeper[selection, bundle]
}

var _ pods.TrustBundleSource = (*Bundles)(nil)

// selection says which objects are selected: one by name, or those of a signer with some labels.
type selection struct{ name, signer, labels string }

func (s selection) String() string {
	if s.name != "" {
		return fmt.Sprintf("%q", s.name)
	}
	return fmt.Sprintf("of signer %q with labels %q", s.signer, s.labels)
}

// entry names a bundle's entry in the cache.
func (s selection) entry() offline.Entry {
	return offline.Entry{Kind: offline.TrustBundle, Name: s.String()}
}

// bundle is what was selected. Absent means that there is no such object, and Why says why.
type bundle struct {
	Anchors []byte `json:"anchors,omitempty"`
	Absent  bool   `json:"absent,omitempty"`
	Why     string `json:"why,omitempty"`
}

// NewBundles returns a source that has read nothing yet.
func NewBundles(o Options) (*Bundles, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Bundles{options: o, bundles: newKeeper(o, shelf[selection, bundle]{entry: selection.entry})}, nil
}

// TrustBundle returns the anchors that a projection selects, each once, sorted, without comments.
// If there are none, or the API server has no trust bundles and never had this one, the error matches
// runtime.ErrNotFound.
// An answer is valid for a minute, and longer if it cannot be read again.
func (b *Bundles) TrustBundle(ctx context.Context, _ *v1.Pod, p *v1.ClusterTrustBundleProjection) ([]byte, error) {
	s, err := selected(p)
	if err != nil {
		return nil, err
	}
	got, err := b.bundles.get(ctx, s, question[bundle]{
		ask: func(ctx context.Context) (answer[bundle], error) { return b.read(ctx, s) },
		log: []any{"trustBundle", s.String()},
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("trust bundle %s: %w", s, err)
	case got.Absent:
		return nil, fmt.Errorf("trust bundle %s: %w: %s", s, runtime.ErrNotFound, got.Why)
	}
	return got.Anchors, nil
}

// selected returns what a projection selects. Without a label selector that is nothing; an empty
// one selects every bundle of the signer.
func selected(p *v1.ClusterTrustBundleProjection) (selection, error) {
	byName, bySigner := p.Name != nil && *p.Name != "", p.SignerName != nil && *p.SignerName != ""
	switch {
	case byName == bySigner:
		return selection{}, errors.New("trust bundle: either a name or a signer must be given")
	case byName:
		return selection{name: *p.Name}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(p.LabelSelector)
	if err != nil {
		return selection{}, fmt.Errorf("trust bundle of signer %q: %w", *p.SignerName, err)
	}
	s := selection{signer: *p.SignerName, labels: selector.String()}
	if p.LabelSelector == nil {
		s.labels = nothing
	}
	return s, nil
}

// nothing stands for a selector that selects nothing; no real selector has this form.
const nothing = "-"

// read reads what is selected.
func (b *Bundles) read(ctx context.Context, s selection) (answer[bundle], error) {
	read, err := b.request(ctx, s)
	asked := b.options.Clock.Now()
	var found bundle
	switch {
	case unserved(err) && !b.known(s):
		found = bundle{Absent: true, Why: "this API server has no trust bundles"}
	case !unserved(err) && answers.NotFound(err):
		found = bundle{Absent: true, Why: "there is no such object"}
	case err != nil:
		return answer[bundle]{}, err
	case len(read) == 0:
		found = bundle{Absent: true, Why: "no object is selected"}
	default:
		if found.Anchors, err = anchors(read); err != nil {
			return answer[bundle]{}, err
		}
	}
	return answer[bundle]{value: found, due: asked.Add(bundleAge)}, nil
}

// known reports whether there was such a bundle: then a server without trust bundles is not the one that
// was asked before, or something else has answered.
func (b *Bundles) known(s selection) bool {
	last, ok := b.bundles.last(s)
	return ok && !last.Absent
}

// request returns the texts of the selected objects, by the newest version of the API that the
// server has.
func (b *Bundles) request(ctx context.Context, s selection) ([]string, error) {
	if s.labels == nothing {
		return nil, nil
	}
	texts, err := b.stable(ctx, s)
	if !unserved(err) {
		return texts, err
	}
	texts, betaErr := b.beta(ctx, s)
	if noVersion(betaErr) {
		return nil, err
	}
	return texts, betaErr
}

func (b *Bundles) stable(ctx context.Context, s selection) ([]string, error) {
	client := b.options.Client.CertificatesV1().ClusterTrustBundles()
	return version[certificatesv1.ClusterTrustBundle, certificatesv1.ClusterTrustBundleList]{
		get: client.Get, list: client.List,
		items: func(l *certificatesv1.ClusterTrustBundleList) []certificatesv1.ClusterTrustBundle { return l.Items },
		look:  func(o *certificatesv1.ClusterTrustBundle) published { return published{o.Spec, o.Labels} },
	}.texts(ctx, s)
}

func (b *Bundles) beta(ctx context.Context, s selection) ([]string, error) {
	client := b.options.Client.CertificatesV1beta1().ClusterTrustBundles()
	return version[certificatesv1beta1.ClusterTrustBundle, certificatesv1beta1.ClusterTrustBundleList]{
		get: client.Get, list: client.List,
		items: func(l *certificatesv1beta1.ClusterTrustBundleList) []certificatesv1beta1.ClusterTrustBundle {
			return l.Items
		},
		look: func(o *certificatesv1beta1.ClusterTrustBundle) published {
			return published{certificatesv1.ClusterTrustBundleSpec(o.Spec), o.Labels}
		},
	}.texts(ctx, s)
}

// version reads one version of the API, in which objects are O and lists are L.
type version[O, L any] struct {
	get   func(context.Context, string, metav1.GetOptions) (*O, error)
	list  func(context.Context, metav1.ListOptions) (*L, error)
	items func(*L) []O
	look  func(*O) published
}

// published is what all versions say of an object.
type published struct {
	spec   certificatesv1.ClusterTrustBundleSpec
	labels map[string]string
}

// texts returns those of the selected objects.
func (v version[O, L]) texts(ctx context.Context, s selection) (out []string, err error) {
	if s.name != "" {
		one, err := v.get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return []string{v.look(one).spec.TrustBundle}, nil
	}
	list, err := v.list(ctx, s.list())
	if err != nil {
		return nil, err
	}
	items := v.items(list)
	for i := range items {
		if o := v.look(&items[i]); s.matches(o.spec.SignerName, o.labels) {
			out = append(out, o.spec.TrustBundle)
		}
	}
	return out, nil
}

func (s selection) list() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: s.labels, FieldSelector: fields.OneTermEqualSelector("spec.signerName", s.signer).String()}
}

// matches checks an object of a list, whatever the server selected.
func (s selection) matches(signer string, of map[string]string) bool {
	selector, err := labels.Parse(s.labels)
	return err == nil && signer == s.signer && selector.Matches(labels.Set(of))
}

// noVersion reports whether the server does not know a version of the API. It says so with a page of net/http's, where a
// load balancer without servers has its own. Every API server has v1 of the group, so it does not say so of that.
func noVersion(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	return apierrors.IsNotFound(err) && ok && cause.Message == "404 page not found"
}

// unserved reports whether the server does not know the resource; an answer that an object does not
// exist differs in that it names the object.
func unserved(err error) bool {
	var status apierrors.APIStatus
	if !answers.NotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

// anchors joins PEM texts: each certificate once, sorted, with nothing between them.
func anchors(texts []string) ([]byte, error) {
	var blocks [][]byte
	for _, text := range texts {
		for rest := []byte(text); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if block.Type != "CERTIFICATE" {
				return nil, fmt.Errorf("it has a block of type %q", strings.ToValidUTF8(block.Type, "?"))
			}
			blocks = append(blocks, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
	}
	if len(blocks) == 0 {
		return nil, errors.New("it has no certificates")
	}
	slices.SortFunc(blocks, bytes.Compare)
	return bytes.Join(slices.CompactFunc(blocks, bytes.Equal), nil), nil
}
