package tokens_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/kube/tokens"
	"github.com/podwright/podwright/runtime/cri"
)

// anchor is a certificate as far as a bundle reads it.
func anchor(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
}

func trustBundle(name, signer, purpose, text string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"purpose": purpose}},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text},
	}
}

// unknown answers as a server without the resource: as an API, or as one that has never heard of its group.
func unknown(version string, api *fake.Clientset, asAPI bool) {
	api.PrependReactor("*", "clustertrustbundles", func(a clienttesting.Action) (bool, k8sruntime.Object, error) {
		if a.GetResource().Version != version {
			return false, nil, nil
		}
		if asAPI {
			return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
			}}
		}
		return true, nil, apierrors.NewGenericServerResponse(404, a.GetVerb(), schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}, "one", "404 page not found", 0, true)
	})
}

func newBundles(t *testing.T, api *fake.Clientset) *tokens.Bundles {
	t.Helper()
	b, err := tokens.NewBundles(tokens.Options{Client: api})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// KK7: a bundle is one object, or those of a signer whose labels match, each certificate once. What is
// selected by nothing, or is not there, is absent.
func TestBundlesAreSelected(t *testing.T) {
	api := fake.NewClientset(
		trustBundle("one", "", "", "a comment\n"+anchor("b")+"between\n"+anchor("a")+anchor("b")),
		trustBundle("s:1", "example.com/s", "tls", anchor("c")+anchor("d")),
		trustBundle("s:2", "example.com/s", "tls", anchor("d")),
		trustBundle("s:3", "example.com/s", "mail", anchor("e")),
		trustBundle("t:1", "example.com/t", "tls", anchor("f")),
		trustBundle("empty", "", "", "nothing"),
		trustBundle("key", "", "", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("hidden")}))),
	)
	b := newBundles(t, api)
	tls := &metav1.LabelSelector{MatchLabels: map[string]string{"purpose": "tls"}}
	bySigner := func(signer string, s *metav1.LabelSelector) v1.ClusterTrustBundleProjection {
		return v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: s}
	}
	byName := func(name string) v1.ClusterTrustBundleProjection { return v1.ClusterTrustBundleProjection{Name: &name} }
	for name, tc := range map[string]struct {
		p      v1.ClusterTrustBundleProjection
		want   string // certificates
		absent bool
		err    string
	}{
		"by name":             {byName("one"), "a b", false, ""},
		"by signer and label": {bySigner("example.com/s", tls), "c d", false, ""},
		"all of a signer":     {bySigner("example.com/s", &metav1.LabelSelector{}), "c d e", false, ""},
		"no selector":         {bySigner("example.com/s", nil), "", true, "no object is selected"},
		"no match":            {bySigner("example.com/none", tls), "", true, "no object is selected"},
		"no such name":        {byName("none"), "", true, "there is no such object"},
		"neither":             {v1.ClusterTrustBundleProjection{}, "", false, "either a name or a signer"},
		"both":                {v1.ClusterTrustBundleProjection{Name: ptr.To("one"), SignerName: ptr.To("example.com/s")}, "", false, "either a name or a signer"},
		"a bad selector":      {bySigner("example.com/s", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}), "", false, "Near"},
		"no certificates":     {byName("empty"), "", false, "no certificates"},
		"a private key":       {byName("key"), "", false, `type "PRIVATE KEY"`},
	} {
		got, err := b.TrustBundle(t.Context(), nil, &tc.p)
		var want string
		for _, c := range strings.Fields(tc.want) {
			want += anchor(c)
		}
		if string(got) != want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("KK7: %s: %q, err %v", name, got, err)
		}
		if cri.IsNotFound(err) != tc.absent {
			t.Errorf("KK7: %s: absent %v, err %v", name, cri.IsNotFound(err), err)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("KK7: %s: %v", name, err)
		}
	}
}

// KK7: the newest version of the API that the server has is asked; without any, bundles are absent.
func TestBundlesOfOtherServers(t *testing.T) {
	beta := &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: "example.com/s", TrustBundle: anchor("a")},
	}
	one := &v1.ClusterTrustBundleProjection{Name: ptr.To("one")}
	ofSigner := &v1.ClusterTrustBundleProjection{SignerName: ptr.To("example.com/s"), LabelSelector: &metav1.LabelSelector{}}
	api := fake.NewClientset(beta)
	unknown("v1", api, true)
	for _, p := range []*v1.ClusterTrustBundleProjection{one, ofSigner} {
		if got, err := newBundles(t, api).TrustBundle(t.Context(), nil, p); err != nil || string(got) != anchor("a") {
			t.Errorf("KK7: %q, err %v", got, err)
		}
	}
	unknown("v1beta1", api, false)
	for _, p := range []*v1.ClusterTrustBundleProjection{one, ofSigner} {
		if _, err := newBundles(t, api).TrustBundle(t.Context(), nil, p); !cri.IsNotFound(err) || !strings.Contains(err.Error(), "has no trust bundles") {
			t.Errorf("KK7: err %v", err)
		}
	}
}

// KK7: a page from a proxy does not prove that a bundle is absent, whichever version of the API was asked.
func TestPageDoesNotProveAbsence(t *testing.T) {
	ofSigner := &v1.ClusterTrustBundleProjection{SignerName: ptr.To("example.com/s"), LabelSelector: &metav1.LabelSelector{}}
	for name, texts := range map[string]map[string]string{
		"all":      {"v1": "<html>Not Found</html>", "v1beta1": "<html>Not Found</html>"},
		"a switch": {"v1": "404 page not found", "v1beta1": "404 page not found"},
		"the beta": {"v1beta1": "<html>Not Found</html>"},
	} {
		for _, p := range []*v1.ClusterTrustBundleProjection{{Name: ptr.To("one")}, ofSigner} {
			api := fake.NewClientset()
			unknown("v1", api, true)
			api.PrependReactor("*", "clustertrustbundles", func(a clienttesting.Action) (bool, k8sruntime.Object, error) {
				text, ok := texts[a.GetResource().Version]
				return ok, nil, apierrors.NewGenericServerResponse(404, a.GetVerb(), a.GetResource().GroupResource(), "", text, 0, true)
			})
			if _, err := newBundles(t, api).TrustBundle(t.Context(), nil, p); err == nil || cri.IsNotFound(err) {
				t.Errorf("KK7: %s: err %v", name, err)
			}
		}
	}
}

// KK7: what was read is read again after a minute, once for all pods; if that fails it stays, however long.
func TestBundlesOutliveOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset(trustBundle("one", "", "", anchor("a")))
		var refusal error
		requests := 0
		api.PrependReactor("get", "clustertrustbundles", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
			requests++
			return refusal != nil, nil, refusal
		})
		b := newBundles(t, api)
		want := func(text string) {
			t.Helper()
			for range 100 {
				got, err := b.TrustBundle(t.Context(), nil, &v1.ClusterTrustBundleProjection{Name: ptr.To("one")})
				if fmt.Sprint(string(got), err) != anchor(text)+"<nil>" {
					t.Fatalf("KK7: %q, err %v", got, err)
				}
			}
		}
		want("a")
		if _, err := api.CertificatesV1().ClusterTrustBundles().Update(t.Context(), trustBundle("one", "", "", anchor("b")), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(59 * time.Second)
		want("a")
		pass(time.Second)
		want("b")
		if requests != 2 {
			t.Errorf("KK7: %d requests", requests)
		}
		refusal = errors.New("connection refused")
		for range 10 {
			pass(10 * time.Minute)
			want("b")
		}
		if requests > 15 {
			t.Errorf("KK7: %d requests in an outage", requests)
		}
		other := newBundles(t, api)
		if _, err := other.TrustBundle(t.Context(), nil, &v1.ClusterTrustBundleProjection{Name: ptr.To("one")}); err == nil || cri.IsNotFound(err) {
			t.Errorf("KK7: an outage is read as absence: %v", err)
		}
	})
}

// KK7: a server without trust bundles means absence only for what it never had: a bundle that was read stays, whether a
// proxy answers with a page or an API server without the resource.
func TestBundleOutlivesAServerWithoutBundles(t *testing.T) {
	one := &v1.ClusterTrustBundleProjection{Name: ptr.To("one")}
	for name, asAPI := range map[string]bool{"an API server": true, "a page": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, api := t.TempDir(), fake.NewClientset(trustBundle("one", "", "", anchor("a")))
				c, cut := boot(t, dir)
				b, err := tokens.NewBundles(tokens.Options{Client: api, Cache: c})
				if err != nil {
					t.Fatal(err)
				}
				want := func() {
					t.Helper()
					for range 10 {
						if got, err := b.TrustBundle(t.Context(), nil, one); err != nil || string(got) != anchor("a") {
							t.Errorf("KK7: %q, err %v", got, err)
						}
						pass(10 * time.Minute)
					}
				}
				want()
				unknown("v1", api, asAPI)
				unknown("v1beta1", api, asAPI)
				want()
				cut()
				c, cut = boot(t, dir)
				defer cut()
				if b, err = tokens.NewBundles(tokens.Options{Client: api, Cache: c}); err != nil {
					t.Fatal(err)
				}
				want()
			})
		})
	}
}

func TestBundlesNeedAClient(t *testing.T) {
	if _, err := tokens.NewBundles(tokens.Options{}); err == nil {
		t.Error("no error")
	}
}
