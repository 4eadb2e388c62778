package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestRenewalIsAt70To90PercentOfLife (KC2), and never due on arrival.
func TestRenewalIsAt70To90PercentOfLife(t *testing.T) {
	for name, c := range map[string]struct {
		from, life, came time.Duration
		chance           float64
		want             time.Duration
	}{
		"earliest":             {0, 100 * time.Hour, 0, 0, 70 * time.Hour},
		"latest":               {0, 100 * time.Hour, 0, 1, 90 * time.Hour},
		"began earlier":        {-5 * time.Minute, 65 * time.Minute, 0, 0, 40*time.Minute + 30*time.Second},
		"due on arrival":       {-5 * time.Minute, 5*time.Minute + 20*time.Second, 0, 0.5, 16 * time.Second},
		"not good yet":         {time.Hour, 100 * time.Hour, 0, 0, 71 * time.Hour},
		"due while it was off": {0, time.Hour, -1000 * time.Hour, 0.5, 48 * time.Minute},
	} {
		got := dueAt(&x509.Certificate{NotBefore: noon.Add(c.from), NotAfter: noon.Add(c.from + c.life)}, noon.Add(c.came), c.chance)
		if d := got.Sub(noon) - c.want; d.Abs() > time.Millisecond {
			t.Errorf("%s: after %s, want %s", name, got.Sub(noon), c.want)
		}
	}
}

// TestNeed (KC2-KC5): when another certificate is asked for.
func TestNeed(t *testing.T) {
	want := &x509.CertificateRequest{DNSNames: []string{"edge-1"}}
	good := &x509.Certificate{NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour), DNSNames: []string{"edge-1", "more"}}
	ahead := &x509.Certificate{NotBefore: noon.Add(time.Minute), NotAfter: noon.Add(time.Hour), DNSNames: []string{"edge-1"}}
	later := noon.Add(time.Minute)
	for name, c := range map[string]struct {
		s    situation
		ask  bool
		wait time.Duration
	}{
		"none":                   {situation{want: want}, true, look},
		"none, and a pause":      {situation{want: want, pause: noon.Add(time.Second)}, false, time.Second},
		"the clock was put back": {situation{want: want, pause: noon.Add(time.Hour)}, true, look},
		"nothing wanted":         {situation{}, false, look},
		"good":                   {situation{newest: good, due: later, want: want}, false, look},
		"due soon":               {situation{newest: good, due: noon.Add(2 * time.Second), want: want}, false, 2 * time.Second},
		"due":                    {situation{newest: good, due: noon, want: want}, true, look},
		"says too little":        {situation{newest: good, due: later, want: &x509.CertificateRequest{IPAddresses: []net.IP{{10, 0, 0, 1}}}}, true, look},
		"the signer left it":     {situation{newest: good, due: later, want: &x509.CertificateRequest{DNSNames: []string{"x"}}, answered: true}, false, look},
		"not good yet":           {situation{newest: ahead, due: later, want: want}, false, look},
		"not good yet, and due":  {situation{newest: ahead, due: noon, want: want}, true, look},
	} {
		c.s.now = noon
		if ask, wait := c.s.ask(), c.s.wait(); ask != c.ask || wait != c.wait {
			t.Errorf("%s: ask %v, wait %s; want %v, %s", name, ask, wait, c.ask, c.wait)
		}
	}
}

// TestUsable: the newest certificate that is good now (KC5).
func TestUsable(t *testing.T) {
	pair := func(from, until time.Duration) *tls.Certificate {
		return &tls.Certificate{Leaf: &x509.Certificate{NotBefore: noon.Add(from), NotAfter: noon.Add(until)}}
	}
	ahead, good, older, expired := pair(time.Minute, time.Hour), pair(-time.Minute, time.Minute), pair(-2*time.Minute, time.Hour), pair(-2*time.Hour, 0)
	for name, c := range map[string]struct {
		pairs []*tls.Certificate
		want  *tls.Certificate
	}{
		"none": {nil, nil}, "newest": {[]*tls.Certificate{good, older}, good}, "newest is ahead": {[]*tls.Certificate{ahead, older}, older},
		"expired": {[]*tls.Certificate{expired}, nil}, "newest has expired first": {[]*tls.Certificate{expired, older}, older},
	} {
		if got := usable(c.pairs, noon); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPauses: what the API server refuses is not asked again soon, and what it asks for counts.
func TestPauses(t *testing.T) {
	busy := apierrors.NewTooManyRequests("busy", 90)
	for name, c := range map[string]struct {
		err            error
		previous, want time.Duration
	}{
		"away":            {errors.New("connection refused"), 0, time.Second},
		"away long":       {errors.New("connection refused"), 20 * time.Second, 30 * time.Second},
		"bad token":       {apierrors.NewUnauthorized("no"), 0, time.Second},
		"bad token, long": {apierrors.NewUnauthorized("no"), 400 * time.Second, 10 * time.Minute},
		"a page, long":    {apierrors.NewGenericServerResponse(401, "post", requestsResource, "", "<html>", 0, true), 400 * time.Second, 30 * time.Second},
		"denied":          {errRefused, 0, 30 * time.Second},
		"denied again":    {errRefused, 30 * time.Second, time.Minute},
		"denied, long":    {errRefused, 9 * time.Minute, 10 * time.Minute},
		"busy":            {busy, 0, 90 * time.Second},
	} {
		if got := pauseAfter(c.err, c.previous); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestServingRequestNamesAddresses (KC4): each once, whatever the order, so that the same addresses ask for the same.
func TestServingRequestNamesAddresses(t *testing.T) {
	list := []v1.NodeAddress{
		{Type: v1.NodeHostName, Address: "edge-1"},
		{Type: v1.NodeInternalIP, Address: "10.0.0.2"},
		{Type: v1.NodeInternalIP, Address: "fd00::1"},
		{Type: v1.NodeInternalDNS, Address: "edge-1"},
		{Type: v1.NodeExternalIP, Address: "10.0.0.2"},
		{Type: v1.NodeExternalDNS, Address: ""},
	}
	reversed := []v1.NodeAddress{list[4], list[3], list[2], list[1], list[0]}
	const want = `"system:node:edge-1" ["system:nodes"] ["edge-1"] ["10.0.0.2" "fd00::1"]`
	for _, l := range [][]v1.NodeAddress{list, reversed} {
		if got := describe(ServingRequest("edge-1", l)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := ServingRequest("edge-1", []v1.NodeAddress{{Type: v1.NodeExternalDNS}}); got != nil {
		t.Errorf("without an address: %s", describe(got))
	}
}
