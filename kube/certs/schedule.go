package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/kube/internal/spread"
)

// Times of a keeper.
const (
	// look is how often a keeper checks what is wanted, and the time.
	look = 10 * time.Second
	// callTimeout bounds one request.
	callTimeout = 30 * time.Second
	// pauseMin and pauseMax bound the pauses after a failed call, pollMin and pauseMax those between two looks
	// at a pending request; pauseMaxRefused bounds those after an answer that a retry will not change soon.
	pauseMin        = time.Second
	pollMin         = 250 * time.Millisecond
	pauseMax        = 30 * time.Second
	pauseMaxRefused = 10 * time.Minute
	// pauseRefusal is the first pause after a signer or an approver has refused: each request is an
	// object that the cluster keeps for an hour.
	pauseRefusal = 30 * time.Second
	// pauseIssued is the pause after a certificate was received, for signers whose certificates last seconds.
	pauseIssued = 5 * time.Second
)

// dueAt is when a certificate that was received at this time is to be replaced: at 70 to 90 % of
// its life, depending on chance (a number from 0 to 1). If its life began so long ago that it would
// be due on arrival, its life is measured from its arrival.
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

// usable returns the newest certificate that is valid now, nil for none. pairs are sorted, newest first.
func usable(pairs []*tls.Certificate, now time.Time) *tls.Certificate {
	i := slices.IndexFunc(pairs, func(c *tls.Certificate) bool { return !now.Before(c.Leaf.NotBefore) && now.Before(c.Leaf.NotAfter) })
	if i < 0 {
		return nil
	}
	return pairs[i]
}

// says reports whether a certificate contains all that is wanted. It may contain more.
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

// situation is everything that decides whether a certificate is requested now.
type situation struct {
	now time.Time
	// newest is the newest certificate, valid already or not, nil for none. due is when it is to be replaced.
	newest *x509.Certificate
	due    time.Time
	// want is what a certificate should contain, nil while that is not known.
	want *x509.CertificateRequest
	// answered means that newest is the signer's answer to want, whatever it contains.
	answered bool
	// pause is when the next call may be made.
	pause time.Time
}

// needed reports whether another certificate is needed. One that is not valid yet is waited for (KC5).
func (s situation) needed() bool {
	if s.want == nil {
		return false
	}
	return s.newest == nil || !s.now.Before(s.due) || !s.answered && !says(s.newest, s.want)
}

// ask reports whether a call is made now. A pause that is longer than any a keeper makes dates from
// before the clock was set back, and is ignored.
func (s situation) ask() bool {
	left := s.pause.Sub(s.now)
	return s.needed() && (left <= 0 || left > spread.Most(pauseMaxRefused))
}

// wait is how long the passing of time alone cannot change anything, at most the time until the next look.
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

// pauseAfter is the pause after a failed call, given the previous pause.
func pauseAfter(err error, previous time.Duration) time.Duration {
	if errors.Is(err, errRefused) {
		return backoff.Next(pauseRefusal, pauseMaxRefused, previous)
	}
	if answers.Refused(err) {
		return backoff.Next(pauseMin, pauseMaxRefused, previous)
	}
	return max(backoff.Next(pauseMin, pauseMax, previous), answers.Wait(err, pauseMaxRefused))
}
