package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
)

// Times of a keeper.
const (
	// look is how often it looks whether other certificates are wanted, and at the time.
	look = 10 * time.Second
	// callTimeout bounds one request.
	callTimeout = 30 * time.Second
	// pauseMin and pauseMax bound the pauses after a failed call, pollMin and pauseMax those between two looks
	// at a request that waits for an answer; pauseMaxRefused bounds those after an answer that asking again does not change soon.
	pauseMin        = time.Second
	pollMin         = 250 * time.Millisecond
	pauseMax        = 30 * time.Second
	pauseMaxRefused = 10 * time.Minute
	// pauseRefusal is the first pause after a signer's or an approver's no: each request is an object
	// that the cluster keeps for an hour.
	pauseRefusal = 30 * time.Second
	// pauseIssued is the pause after a certificate came, for signers whose certificates last seconds.
	pauseIssued = 5 * time.Second
)

// dueAt is when a certificate that came at this time is to be replaced: at 70 to 90 % of its life,
// as chance (a number from 0 to 1) says. One that says it began so long ago that it would be due
// on arrival is measured from its arrival.
func dueAt(c *x509.Certificate, came time.Time, chance float64) time.Time {
	share := 0.7 + 0.2*chance
	due := part(c.NotBefore, c.NotAfter, share)
	if !due.After(came) {
		due = part(came, c.NotAfter, share)
	}
	return due
}

func part(from, until time.Time, share float64) time.Time {
	return from.Add(time.Duration(float64(until.Sub(from)) * share))
}

// usable is the newest certificate that is good now, nil for none. pairs are sorted, newest first.
func usable(pairs []*tls.Certificate, now time.Time) *tls.Certificate {
	i := slices.IndexFunc(pairs, func(c *tls.Certificate) bool { return !now.Before(c.Leaf.NotBefore) && now.Before(c.Leaf.NotAfter) })
	if i < 0 {
		return nil
	}
	return pairs[i]
}

// says reports whether a certificate says all that is wanted. It may say more.
func says(c *x509.Certificate, want *x509.CertificateRequest) bool {
	if c.Subject.CommonName != want.Subject.CommonName {
		return false
	}
	for _, o := range want.Subject.Organization {
		if !slices.Contains(c.Subject.Organization, o) {
			return false
		}
	}
	for _, name := range want.DNSNames {
		if !slices.Contains(c.DNSNames, name) {
			return false
		}
	}
	for _, ip := range want.IPAddresses {
		if !slices.ContainsFunc(c.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// situation is all that decides whether a certificate is asked for now.
type situation struct {
	now time.Time
	// newest is the newest certificate, good already or not, nil for none. due is when it is to be replaced.
	newest *x509.Certificate
	due    time.Time
	// want is what a certificate is to say, nil while that is not known.
	want *x509.CertificateRequest
	// answered: newest is what the signer made of want, whatever it says.
	answered bool
	// pause is when the next call may be made.
	pause time.Time
}

// needed reports whether another certificate is needed. One that is not good yet is waited for (KC5).
func (s situation) needed() bool {
	if s.want == nil {
		return false
	}
	return s.newest == nil || !s.now.Before(s.due) || !s.answered && !says(s.newest, s.want)
}

// ask reports whether a call is made now. A pause longer than any that a keeper makes was made before the
// clock was put back.
func (s situation) ask() bool {
	left := s.pause.Sub(s.now)
	return s.needed() && (left <= 0 || left > pauseMaxRefused)
}

// wait is how long nothing can change by time alone, and at most until the next look.
func (s situation) wait() time.Duration {
	wait := look
	moments := []time.Time{s.pause}
	if s.newest != nil {
		moments = append(moments, s.due, s.newest.NotBefore)
	}
	for _, m := range moments {
		if d := m.Sub(s.now); d > 0 {
			wait = min(wait, d)
		}
	}
	return wait
}

// pauseAfter is the pause after a failed call that followed a pause.
func pauseAfter(err error, previous time.Duration) time.Duration {
	if errors.Is(err, errRefused) {
		return backoff.Next(pauseRefusal, pauseMaxRefused, previous)
	}
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return backoff.Next(pauseMin, pauseMaxRefused, previous)
	}
	pause := backoff.Next(pauseMin, pauseMax, previous)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, min(timing.Seconds(int64(seconds)), pauseMaxRefused))
	}
	return pause
}
