package seal_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/podwright/podwright/internal/seal"
)

func newKey(t *testing.T, use string, n byte) seal.Key {
	t.Helper()
	secret := sha256.Sum256([]byte{n})
	k, err := seal.NewKey(use, secret[:])
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestOnlyTheKeyAndNameOpen: each changed byte, another name, another key and another use of the same secret
// are told apart from the document that was sealed.
func TestOnlyTheKeyAndNameOpen(t *testing.T) {
	first, second := newKey(t, "test", 1), newKey(t, "test", 2)
	body, err := seal.Keys{first}.Seal("a", []byte("document"))
	if err != nil || bytes.Contains(body, []byte("document")) {
		t.Fatalf("%q, %v", body, err)
	}
	for i, keys := range []seal.Keys{{first}, {second, first}} {
		if document, newest, err := keys.Open("a", body); string(document) != "document" || newest != (i == 0) || err != nil {
			t.Errorf("%v: %q, newest %t, %v", keys, document, newest, err)
		}
	}
	if _, _, err := (seal.Keys{first}).Open("b", body); !errors.Is(err, seal.ErrChanged) {
		t.Errorf("another name: %v", err)
	}
	for _, keys := range []seal.Keys{nil, {second}, {newKey(t, "other", 1)}} {
		var unknown *seal.UnknownKeyError
		if _, _, err := keys.Open("a", body); !errors.As(err, &unknown) || unknown.ID != first.ID() {
			t.Errorf("%v: %v", keys, err)
		}
	}
	for i := range body {
		changed := slices.Clone(body)
		changed[i] ^= 1
		if _, _, err := (seal.Keys{first}).Open("a", changed); err == nil {
			t.Errorf("byte %d was changed", i)
		}
		if _, _, err := (seal.Keys{first}).Open("a", body[:i]); err == nil {
			t.Errorf("cut at %d", i)
		}
	}
}

// TestKeysAreChecked: what is no secret is no key, and no key is there twice. Printing shows the ID alone.
func TestKeysAreChecked(t *testing.T) {
	for _, secret := range [][]byte{nil, []byte("short"), bytes.Repeat([]byte{7}, 32)} {
		if k, err := seal.NewKey("test", secret); err == nil || !k.None() || k.ID() != "" {
			t.Errorf("%q is a key", secret)
		}
	}
	k := newKey(t, "test", 1)
	for _, keys := range []seal.Keys{{k, k}, {k, {}}} {
		if keys.Check() == nil {
			t.Errorf("%v is good", keys)
		}
	}
	if err := (seal.Keys{k, newKey(t, "test", 2)}).Check(); err != nil {
		t.Error(err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); len(text) != 4*16+3 {
		t.Errorf("printed as %s", text)
	}
}
