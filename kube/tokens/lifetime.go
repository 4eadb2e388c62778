package tokens

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/kube/internal/answers"
)

const (
	// defaultLife is the life of a token if its projection does not specify one.
	defaultLife = time.Hour
	// oldest is the age at which a token is replaced, however long it is valid (KK2).
	oldest = 24 * time.Hour
	// leastLife is how long a certificate is used at least before it is replaced, if it is valid that long.
	leastLife = time.Minute
	// mostJitter bounds how much earlier than due a replacement is requested.
	mostJitter = 10 * time.Second
)

// dueAt is when a token that was received at this time is to be replaced: at 80 % of its life or
// after 24 h, and slightly earlier depending on chance (a number from 0 to 1), so that tokens
// received together are not replaced together.
func dueAt(came time.Time, life time.Duration, chance float64) time.Time {
	age := min(life/5*4, oldest)
	return came.Add(age - time.Duration(chance*float64(min(mostJitter, age/10))))
}

// renewAt is when a certificate that came now is to be replaced: when its signer said, otherwise at
// 80 % of its remaining life. A time that has passed on arrival, as by a clock that is ahead, counts as
// none: each use of the certificate would make another request.
func renewAt(now time.Time, said *metav1.Time, end time.Time) time.Time {
	life := end.Sub(now) / 5 * 4
	if said != nil && said.After(now) {
		life = said.Sub(now)
	}
	return now.Add(max(life, leastLife))
}

// Pauses after a failed request. A refused one is not repeated soon (KK3), because usually only an
// operator can change the answer. The first pause is short anyway: the API server may not know yet
// that the pod is on this node.
const (
	pauseMin        = time.Second
	pauseMax        = 30 * time.Second
	pauseMaxRefused = 5 * time.Minute
)

// pauseAfter is the pause after a failed request, given the previous pause. A clock that is wrong
// stays so for longer than a moment, and each request for a certificate is an object in the cluster.
func pauseAfter(err error, previous time.Duration) time.Duration {
	if refused(err) || errors.Is(err, errIssuedExpired) {
		return backoff.Next(pauseMin, pauseMaxRefused, previous)
	}
	return max(backoff.Next(pauseMin, pauseMax, previous), answers.Wait(err, pauseMaxRefused))
}

// refused reports whether the API server has decided, so that asking again soon changes nothing.
func refused(err error) bool {
	return errors.Is(err, errRefusedBySigner) || answers.Refused(err) || answers.NotFound(err) || answers.Conflict(err)
}

// answered reports whether an error is an answer of the API server.
func answered(err error) bool {
	var said apierrors.APIStatus
	return errors.As(err, &said) && !answers.Page(err) || errors.Is(err, errRefusedBySigner) || errors.Is(err, ErrWaitingForSigner) || errors.Is(err, errIssuedExpired)
}

// decided reports whether the API server has decided about the pod. If it rejects the node's own
// credentials (401), that says nothing about pods.
func decided(err error) bool { return refused(err) && !apierrors.IsUnauthorized(err) }
