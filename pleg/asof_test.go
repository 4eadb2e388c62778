package pleg

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// It answers as getNewerThan does (C1, C8, C11), whatever made the
// pod known.
func TestAsOfAnswersAsGetNewerThanDoes(t *testing.T) {
	c := newCache()
	check := func(what string, uid types.UID, want runtime.Stamp) {
		t.Helper()
		got := c.asOf(uid)
		if got != want {
			t.Errorf("%s: known as of %d, want %d", what, got, want)
		}
		if got > 0 && !c.newer(uid, got-1) || c.newer(uid, got) {
			t.Errorf("%s: known as of %d, but newer says something else", what, got)
		}
	}
	check("nothing known", "a", 0)
	c.relisted(5, nil, []types.UID{"a"}, nil)
	check("outstanding pod", "a", 0)
	check("unknown pod after a relist", "b", 5)
	c.set("a", &runtime.PodStatus{UID: "a", Stamp: 6}, nil, 6)
	check("read", "a", 6)
	c.setObserved("a", 8)
	check("seen unchanged by a refresh", "a", 8)
	c.relisted(10, nil, nil, nil)
	check("seen unchanged by a relist", "a", 10)
	c.relisted(12, nil, []types.UID{"a"}, nil)
	check("changed in a relist", "a", 10)
	check("pod beside it", "b", 12)
}

// C2: an empty status means that the runtime does not know the pod. That is not the case for a pod
// that a list showed and that has not been read.
func TestGetOfPodThatWasNeverReadIsAnError(t *testing.T) {
	c := newCache()
	if status, err := c.get("a"); status != nil || !errors.Is(err, ErrNotRead) {
		t.Errorf("before the first relist: %+v, %v", status, err)
	}
	c.relisted(5, nil, []types.UID{"a"}, nil)
	if status, err := c.get("a"); status != nil || !errors.Is(err, ErrNotRead) {
		t.Errorf("listed and not read: %+v, %v", status, err)
	}
	if status, err := c.get("b"); err != nil || status == nil || status.UID != "b" || status.Stamp != 5 {
		t.Errorf("not listed: %+v, %v", status, err)
	}
	c.set("a", &runtime.PodStatus{UID: "a", Stamp: 6}, nil, 6)
	if status, err := c.get("a"); err != nil || status == nil {
		t.Errorf("read: %+v, %v", status, err)
	}
	c.relisted(7, nil, []types.UID{"a"}, nil)
	if status, err := c.get("a"); err != nil || status == nil {
		t.Errorf("changed since it was read: %+v, %v", status, err)
	}
	failure := errors.New("container status: 14 unavailable")
	c.relisted(8, nil, []types.UID{"c"}, nil)
	c.set("c", nil, failure, 8)
	if status, err := c.get("c"); status != nil || !errors.Is(err, failure) {
		t.Errorf("its first reading failed: %+v, %v", status, err)
	}
	c.set("a", nil, failure, 8)
	if status, err := c.get("a"); status == nil || status.Stamp != 6 || !errors.Is(err, failure) {
		t.Errorf("a later reading failed: %+v, %v", status, err)
	}
}
