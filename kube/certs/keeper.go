package certs

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/complaint"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/kube/internal/spread"
)

// ErrNone is wrapped in the error of [Keeper.Certificate]: no certificate is valid now.
var ErrNone = errors.New("the node has no valid certificate")

// Keeper keeps the certificates of one signer. Make one with [New]. [Keeper.Certificate] is safe
// for concurrent use.
type Keeper struct {
	options     Options
	store       store
	instruments instruments

	mu sync.Mutex
	// pairs are sorted, newest first.
	pairs []*tls.Certificate
	// why says why no certificate comes, nil if nothing is wrong.
	why error

	// The fields below belong to the goroutine of Run.

	due time.Time
	// answered describes what the newest certificate was requested for, empty if that is not known.
	answered string
	// key is the key of the request that is pending or about to be made, nil if there is none.
	key        crypto.Signer
	keyContent []byte
	// made is the name of the request that the API server has.
	made string
	// refused means that the API server has refused the certificate, although its times say it is valid.
	refused bool
	// savePair stores the newest pair, nil if it is on disk. keyUnsaved means that the key's file differs from key.
	savePair   func() error
	keyUnsaved bool

	// next is when the next call may be made; pause is the pause after the last failure, poll the one between the
	// last two looks at the request. A refusal follows calls that did not fail, so each has its own back-off.
	next        time.Time
	pause, poll time.Duration

	calls, disk complaint.Complaint
}

// New reads the certificates on disk. A file that cannot be read is logged and skipped.
func New(o Options) (*Keeper, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	k := &Keeper{options: o, store: store{o.Dir, o.Name}}
	if err := k.store.open(); err != nil {
		return nil, fmt.Errorf("certs: the folder for certificates %s: %w", o.Dir, err)
	}
	var err error
	if k.instruments, err = newInstruments(o); err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	if k.pairs, err = k.store.load(o.Logger); err != nil {
		return nil, fmt.Errorf("certs: the folder for certificates %s: %w", o.Dir, err)
	}
	k.pairs = k.own(k.pairs)
	if o.Initial != nil && !slices.ContainsFunc(k.pairs, func(p *tls.Certificate) bool { return same(p, o.Initial) }) {
		k.pairs = append(k.pairs, o.Initial)
		slices.SortStableFunc(k.pairs, compare)
	}
	k.key, k.keyContent = k.store.key()
	if len(k.pairs) > 0 {
		k.schedule(time.Time{})
		k.answered = k.store.answers(k.pairs[0])
		if k.key != nil && of(k.pairs[0], k.key) { // killed before the key was removed
			k.forgetKey()
		}
	}
	return k, nil
}

// own drops certificates that were issued to another name, for example before a node was renamed:
// they would authenticate as neither that node nor this one.
func (k *Keeper) own(pairs []*tls.Certificate) []*tls.Certificate {
	want := k.options.Wanted()
	if want == nil {
		return pairs
	}
	return slices.DeleteFunc(pairs, func(p *tls.Certificate) bool {
		other := p.Leaf.Subject.CommonName != want.Subject.CommonName
		if other {
			k.options.Logger.Info("A certificate on disk is left out: it is another name's", "of", p.Leaf.Subject.CommonName, "wanted", want.Subject.CommonName)
		}
		return other
	})
}

// schedule sets when the newest certificate, which was received at this time, is replaced.
func (k *Keeper) schedule(came time.Time) {
	leaf := k.pairs[0].Leaf
	k.due = dueAt(leaf, came, k.options.Rand.Float64())
	if k.options.OnlyExpired {
		k.due = leaf.NotAfter
	}
}

// Certificate returns the newest certificate that is valid now. It returns the same value until there
// is another one; callers must not change it. An error wraps [ErrNone] and says why. It does not block.
func (k *Keeper) Certificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.options.Clock.Now()
	if c := usable(k.pairs, now); c != nil {
		return c, nil
	}
	err := fmt.Errorf("%w (%s)", ErrNone, k.options.Name)
	if len(k.pairs) > 0 {
		leaf := k.pairs[0].Leaf
		if now.Before(leaf.NotBefore) {
			return nil, fmt.Errorf("%w: the newest is good from %s and the node's clock says %s: check the clock", err, stamp(leaf.NotBefore), stamp(now))
		}
		err = fmt.Errorf("%w: the last one expired at %s", err, stamp(leaf.NotAfter))
	}
	if k.why != nil {
		err = fmt.Errorf("%w: %w", err, k.why)
	}
	return nil, err
}

// newest returns the newest certificate, even if it is not valid yet.
func (k *Keeper) newest() *tls.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pairs) == 0 {
		return nil
	}
	return k.pairs[0]
}

// Run gets and renews certificates until ctx ends, and then returns nil. Call it once. The API
// server may be unavailable, refuse, or not answer, for any length of time.
func (k *Keeper) Run(ctx context.Context) error {
	withdraw, err := k.export()
	if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	defer withdraw()
	for {
		now := k.options.Clock.Now()
		k.flush(now)
		s := k.situation(now)
		if s.ask() {
			k.attempt(ctx, s)
			now = k.options.Clock.Now()
			s = k.situation(now)
		}
		if timing.Sleep(ctx, k.options.Clock, s.wait()) != nil {
			return nil
		}
	}
}

func (k *Keeper) situation(now time.Time) situation {
	s := situation{now: now, due: k.due, want: k.options.Wanted(), pause: k.next}
	if newest := k.newest(); newest != nil {
		s.newest = newest.Leaf
	}
	s.answered = s.want != nil && k.answered == describe(s.want)
	return s
}

// attempt makes one call, and sets when the next may be made.
func (k *Keeper) attempt(ctx context.Context, s situation) {
	waits, err := k.call(ctx, s)
	if ctx.Err() != nil {
		return
	}
	now := k.options.Clock.Now()
	k.calls.Note(k.options.Logger, now, err, "A certificate cannot be had", "The API server takes requests for certificates again")
	why := err
	switch {
	case err != nil:
		k.instruments.failed(ctx)
		k.pause, k.poll = pauseAfter(err, k.pause), 0
		k.next = now.Add(spread.Out(k.pause, s.want.Subject.CommonName, now))
	case waits != "":
		why = errors.New(waits)
		k.poll = backoff.Next(pollMin, pauseMax, k.poll)
		k.next = now.Add(spread.Out(k.poll, s.want.Subject.CommonName, now))
	default:
		k.pause, k.poll = 0, 0
		k.next = now.Add(pauseIssued)
	}
	k.mu.Lock()
	k.why = why
	k.mu.Unlock()
}

// call makes the request, or checks for its answer, and takes the answer. waits says what the
// request waits for, empty once it is answered.
func (k *Keeper) call(ctx context.Context, s situation) (waits string, err error) {
	if err := k.ensureKey(s.now); err != nil {
		return "", err
	}
	r, err := newRequest(k.options.Signer, s.want, k.key)
	if err != nil {
		return "", fmt.Errorf("make a certificate signing request: %w", err)
	}
	answer, err := k.exchange(ctx, r)
	if err != nil {
		return "", err
	}
	chain, err := chainOf(answer)
	if err == nil && len(chain) == 0 {
		return stage(answer), nil
	}
	now := k.options.Clock.Now()
	var pair *tls.Certificate
	var content []byte
	if err == nil {
		pair, content, err = join(chain, k.keyContent, now)
	}
	if err != nil {
		k.forgetKey() // the next request needs a new key
		return "", err
	}
	k.take(pair, content, describe(s.want), now)
	return "", nil
}

// exchange makes the request unless it exists, and returns it as the API server has it.
func (k *Keeper) exchange(ctx context.Context, r request) (*certificatesv1.CertificateSigningRequest, error) {
	current, _ := k.Certificate()
	if k.refused {
		current = nil
	}
	client, err := k.options.Client(current)
	if err != nil {
		return nil, err
	}
	ctx, cancel := timing.WithTimeout(ctx, k.options.Clock, callTimeout)
	defer cancel()
	var answer *certificatesv1.CertificateSigningRequest
	if k.made == r.name {
		answer, err = client.Get(ctx, r.name, metav1.GetOptions{})
	}
	if k.made != r.name || answers.NotFound(err) { // the cluster removes unanswered requests after a day
		if answer, err = r.make(ctx, client, k.options.Lifetime); err == nil {
			k.options.Logger.Info("A certificate is asked for", "request", r.name, "signer", r.signer)
		}
	}
	k.refused = current != nil && apierrors.IsUnauthorized(err) && !answers.Page(err)
	if err != nil {
		return nil, err
	}
	k.made = r.name
	return answer, nil
}

// take makes a certificate the newest. It is used even if a full disk prevents saving it.
func (k *Keeper) take(pair *tls.Certificate, content []byte, want string, now time.Time) {
	k.mu.Lock()
	k.pairs = slices.Insert(k.pairs, 0, pair)
	k.pairs = k.pairs[:min(len(k.pairs), kept)]
	k.mu.Unlock()
	k.schedule(now)
	k.answered = want
	content = label(content, want)
	k.savePair = func() error { return k.store.save(pair, content, now) }
	k.options.Logger.Info("There is a certificate", "signer", k.options.Signer, "notAfter", pair.Leaf.NotAfter, "replacedAt", k.due)
	k.forgetKey()
}

// ensureKey makes the key of the next request, unless there is one.
func (k *Keeper) ensureKey(now time.Time) (err error) {
	if k.key != nil {
		return nil
	}
	if k.key, k.keyContent, err = newKey(); err != nil {
		return fmt.Errorf("make a private key: %w", err)
	}
	k.keyUnsaved = true
	k.flush(now)
	return nil
}

// forgetKey drops the key of an answered request.
func (k *Keeper) forgetKey() {
	k.key, k.keyContent, k.made, k.keyUnsaved = nil, nil, "", true
	k.flush(k.options.Clock.Now())
}

// flush writes what is not on disk yet: the pair first, so that no crash loses both the pair and its key.
func (k *Keeper) flush(now time.Time) {
	if k.savePair == nil && !k.keyUnsaved {
		return
	}
	var err error
	if k.savePair != nil {
		err = k.savePair()
	}
	if err == nil {
		k.savePair = nil
		if k.key == nil {
			err = k.store.dropKey()
		} else {
			err = k.store.saveKey(k.keyContent)
		}
		k.keyUnsaved = err != nil
	}
	k.disk.Note(k.options.Logger, now, err, "Certificates cannot be stored; they are used all the same", "Certificates can be stored again")
}
