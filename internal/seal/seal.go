package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// keySize is the length of a key's secret in bytes.
	keySize = 32
	idSize  = 8
)

// ErrForm is wrapped in the error of [Keys.Open] for a body that no key has sealed.
var ErrForm = errors.New("it names no key")

// ErrChanged is wrapped in the error of [Keys.Open] for a body that was changed after it was
// sealed, or was sealed for a file with another name.
var ErrChanged = errors.New("it was changed, or sealed under another name")

// UnknownKeyError is the error for a body that is sealed with a key that was not given.
type UnknownKeyError struct {
	// ID is that key's ID, Given lists the available keys.
	ID, Given string
}

// Error implements error.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("it is sealed with key %s; the keys given are: %s", e.ID, e.Given)
}

// Key seals files. The zero value is not a key. A Key is safe for concurrent use, and shows its ID
// when printed.
type Key struct{ *key }

type key struct {
	use, id string
	secret  string
}

// NewKey returns the key of a secret, 32 random bytes, for one use. Keys made from the same secret
// for different uses are unrelated. The secret is copied; errors never quote it.
func NewKey(use string, secret []byte) (Key, error) {
	if len(secret) != keySize {
		return Key{}, fmt.Errorf("the key has %d bytes, want %d random ones", len(secret), keySize)
	}
	if bytes.Count(secret, secret[:1]) == keySize {
		return Key{}, fmt.Errorf("the key is one byte %d times, want %d random ones", keySize, keySize)
	}
	id, err := hkdf.Key(sha256.New, secret, nil, "podwright "+use+": key id", idSize)
	if err != nil {
		return Key{}, err
	}
	return Key{&key{use: use, id: hex.EncodeToString(id), secret: string(secret)}}, nil
}

// None reports whether k is the zero value.
func (k Key) None() bool { return k.key == nil }

// ID names the key: 16 hexadecimal digits that reveal nothing about the secret. It is empty for the
// zero value.
func (k Key) ID() string {
	if k.key == nil {
		return ""
	}
	return k.id
}

// String returns the ID.
func (k Key) String() string { return k.ID() }

// GoString returns the ID.
func (k Key) GoString() string { return k.ID() }

// cipher returns the cipher that seals the file with this name.
func (k Key) cipher(name string) (cipher.AEAD, error) {
	secret, err := hkdf.Key(sha256.New, []byte(k.secret), nil, "podwright "+k.use+": seal version 2, file "+name, keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Keys are those of a folder, newest first: the first one seals.
type Keys []Key

// Check reports an invalid key, or one that is given twice.
func (ks Keys) Check() error {
	for i, k := range ks {
		switch {
		case k.None():
			return fmt.Errorf("key %d is not a key: make one with NewKey", i)
		case slices.ContainsFunc(ks[:i], func(other Key) bool { return other.id == k.id }):
			return fmt.Errorf("key %s appears twice", k.id)
		}
	}
	return nil
}

// Seal returns the body of the file with this name: the ID of the key, a newline, and the sealed
// document. There must be a key.
func (ks Keys) Seal(name string, document []byte) ([]byte, error) {
	k := ks[0]
	c, err := k.cipher(name)
	if err != nil {
		return nil, err
	}
	body := append(make([]byte, 0, len(k.id)+1+len(document)+c.Overhead()), k.id+"\n"...)
	return c.Seal(body, nil, document, []byte(name)), nil
}

// Open returns the document in the body of the file with this name, and whether the newest key
// sealed it. The error wraps ErrForm or ErrChanged, or is an *UnknownKeyError; it quotes nothing of
// the document.
func (ks Keys) Open(name string, body []byte) (document []byte, newest bool, err error) {
	word, sealed, found := bytes.Cut(body, []byte("\n"))
	id := string(word)
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != idSize || !found {
		return nil, false, ErrForm
	}
	for i, k := range ks {
		if k.id != id {
			continue
		}
		c, err := k.cipher(name)
		if err != nil {
			return nil, false, err
		}
		if document, err = c.Open(nil, nil, sealed, []byte(name)); err != nil {
			return nil, false, fmt.Errorf("%w, after key %s had sealed it", ErrChanged, id)
		}
		return document, i == 0, nil
	}
	return nil, false, &UnknownKeyError{ID: id, Given: ks.names()}
}

// names lists the keys.
func (ks Keys) names() string {
	if len(ks) == 0 {
		return "none"
	}
	ids := make([]string, len(ks))
	for i, k := range ks {
		ids[i] = k.id
	}
	return strings.Join(ids, ", ")
}
