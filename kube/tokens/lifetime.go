package tokens

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
)

const (
	// defaultLife is the life of a token whose projection names none.
	defaultLife = time.Hour
	// oldest is the age at which a token is replaced, however long it is good (KK2).
	oldest = 24 * time.Hour
	// mostJitter bounds how much earlier than due a replacement is asked for.
	mostJitter = 10 * time.Second
)

// dueAt is when a token that came at this time is to be replaced: at 80 % of its life or after
// 24 h, and somewhat earlier as chance (a number from 0 to 1) says, so that tokens that came together are
// not replaced together.
func dueAt(came time.Time, life time.Duration, chance float64) time.Time {
	age := min(life/5*4, oldest)
	return came.Add(age - time.Duration(chance*float64(min(mostJitter, age/10))))
}

// Pauses after a request that failed. One that was refused is not repeated soon (KK3): as a rule
// only a person can change that. The first pause is short all the same, as an API server may not
// have heard yet that the pod is on this node.
const (
	pauseMin        = time.Second
	pauseMax        = 30 * time.Second
	pauseMaxRefused = 5 * time.Minute
)

// pauseAfter is the pause after a failed request that followed a pause.
func pauseAfter(err error, previous time.Duration) time.Duration {
	if refused(err) {
		return backoff.Next(pauseMin, pauseMaxRefused, previous)
	}
	pause := backoff.Next(pauseMin, pauseMax, previous)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, min(timing.Seconds(int64(seconds)), pauseMaxRefused))
	}
	return pause
}

// refused reports whether the API server has decided, so that asking again changes nothing soon.
func refused(err error) bool {
	return errors.Is(err, errRefusedBySigner) || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}

// answered reports whether an error is an answer of the API server.
func answered(err error) bool {
	var said apierrors.APIStatus
	return errors.As(err, &said) || errors.Is(err, errRefusedBySigner) || errors.Is(err, ErrWaitingForSigner)
}

// decided reports whether the API server has decided about the pod. Of a node whose own credentials it does not take (401)
// it says nothing about pods.
func decided(err error) bool { return refused(err) && !apierrors.IsUnauthorized(err) }
