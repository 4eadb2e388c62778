package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// newKey makes a key, and its stored form.
func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// parseKey reads what newKey wrote.
func parseKey(content []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != "EC PRIVATE KEY" {
		return nil, errors.New("no private key")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

// parsePair reads certificates and the key of the first, in any order. The error never quotes the
// content.
func parsePair(content []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(content, content)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &pair, nil
}

// join makes a pair from what a signer issued and the key, and its stored form. Its error wraps
// errRefused: this request will not get a better answer.
func join(chain, key []byte, now time.Time) (*tls.Certificate, []byte, error) {
	content := append(bytes.TrimRight(chain, "\n"), '\n')
	content = append(content, key...)
	pair, err := parsePair(content)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the signer issued no certificate for the node's key: %w", errRefused, err)
	}
	if !now.Before(pair.Leaf.NotAfter) {
		return nil, nil, fmt.Errorf("%w: the signer issued a certificate that expired at %s, and the node's clock says %s: check the clock of both",
			errRefused, stamp(pair.Leaf.NotAfter), stamp(now))
	}
	return pair, content, nil
}

// labelStart begins the first line of a stored pair, which readers of PEM skip: what it was requested for. A signer may
// leave out some of that, so the certificate does not tell.
const labelStart = "# requested for "

// label adds that line. want is one line, whatever the names in it contain.
func label(content []byte, want string) []byte {
	return slices.Concat([]byte(labelStart+want+"\n"), content)
}

// labelOf returns what label added, empty if it did not.
func labelOf(content []byte) string {
	line, _, _ := bytes.Cut(content, []byte("\n"))
	want, ours := bytes.CutPrefix(line, []byte(labelStart))
	if !ours {
		return ""
	}
	return string(want)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// same reports whether both are the same certificate.
func same(a, b *tls.Certificate) bool { return bytes.Equal(a.Certificate[0], b.Certificate[0]) }

// of reports whether a certificate belongs to the key.
func of(c *tls.Certificate, key crypto.Signer) bool {
	public, ok := c.Leaf.PublicKey.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}

// compare sorts pairs newest first.
func compare(a, b *tls.Certificate) int {
	if c := b.Leaf.NotBefore.Compare(a.Leaf.NotBefore); c != 0 {
		return c
	}
	return b.Leaf.NotAfter.Compare(a.Leaf.NotAfter)
}
