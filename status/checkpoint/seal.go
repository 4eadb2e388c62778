package checkpoint

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// A sealed record has version 2 in its header, and this instead of the JSON document:
//
//	<id of the key>
//	<nonce, ciphertext of the document, tag of AES-256-GCM>
//
// Everything is encrypted: commands, annotations and messages hold secrets too, and the cipher
// that hides them is what shows a change. Each file has a key of its own, derived from the
// secret and the name of the file, so no record can take the place of another pod's.

// keySize is how many bytes the secret of a key has.
const keySize = 32

// What the secret of a key is used for. No two uses share a derived key.
const (
	deriveID   = "podwright record: key id"
	deriveSeal = "podwright record: seal version 2, file "
)

var errPlain = errors.New("anyone who can write to the folder may have made it")

// sealedError: a record is sealed with a key that was not given.
type sealedError struct{ id, given string }

func (e *sealedError) Error() string {
	return fmt.Sprintf("it is sealed with key %s; the keys given are: %s", e.id, e.given)
}

// Key seals the records of a node: what they say cannot be read, changed or given to another pod
// without it (CK12). Its zero value is no key. It is safe for concurrent use, and shows its ID
// when printed.
type Key struct{ *key }

type key struct {
	id     string
	secret string
}

// NewKey returns the key of a secret: 32 random bytes, as "openssl rand 32" makes them. It keeps
// a copy. Errors never quote the secret.
func NewKey(secret []byte) (Key, error) {
	if len(secret) != keySize {
		return Key{}, fmt.Errorf("the key has %d bytes, want %d random ones", len(secret), keySize)
	}
	if bytes.Count(secret, secret[:1]) == keySize {
		return Key{}, fmt.Errorf("the key is one byte %d times, want %d random ones", keySize, keySize)
	}
	id, err := hkdf.Key(sha256.New, secret, nil, deriveID, 8)
	if err != nil {
		return Key{}, err
	}
	return Key{&key{id: hex.EncodeToString(id), secret: string(secret)}}, nil
}

// ID names the key in records and messages: 16 hexadecimal digits that say nothing about the
// secret. It is empty for no key.
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

// cipher returns what seals the file of this name.
func (k Key) cipher(name string) (cipher.AEAD, error) {
	secret, err := hkdf.Key(sha256.New, []byte(k.secret), nil, deriveSeal+name, keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seals are the keys of a store. The zero value neither seals nor opens anything.
type seals struct {
	keys []Key // newest first
	// trustPlain accepts records that are not sealed although there is a key.
	trustPlain bool
}

// seal returns the body of a sealed record.
func (s seals) seal(name string, document []byte) ([]byte, error) {
	k := s.keys[0]
	c, err := k.cipher(name)
	if err != nil {
		return nil, err
	}
	body := append(make([]byte, 0, len(k.id)+1+len(document)+c.Overhead()), k.id+"\n"...)
	return c.Seal(body, nil, document, []byte(name)), nil
}

// open returns the document of a sealed record, and whether the newest key sealed it.
func (s seals) open(name string, body []byte) (document []byte, newest bool, err error) {
	word, sealed, found := bytes.Cut(body, []byte("\n"))
	id := string(word)
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 8 || !found {
		return nil, false, fmt.Errorf("%w: no key", errCorrupt)
	}
	for i, k := range s.keys {
		if k.id != id {
			continue
		}
		c, err := k.cipher(name)
		if err != nil {
			return nil, false, err
		}
		if document, err = c.Open(nil, nil, sealed, []byte(name)); err != nil {
			return nil, false, fmt.Errorf("%w: it was changed, or sealed under another name, after key %s had sealed it", errCorrupt, id)
		}
		return document, i == 0, nil
	}
	return nil, false, &sealedError{id: id, given: s.names()}
}

// names lists the keys.
func (s seals) names() string {
	if len(s.keys) == 0 {
		return "none"
	}
	ids := make([]string, len(s.keys))
	for i, k := range s.keys {
		ids[i] = k.id
	}
	return strings.Join(ids, ", ")
}

// sealer is a [Store] that can seal records.
type sealer interface {
	Seal(keys []Key, trustPlain bool) error
}

// Seal has the store seal what it writes with the first key, and open what any of the keys has sealed. It
// is called before any other method, and does nothing without keys. Records that are not sealed are
// refused then, unless they are trusted; see [Options].
func (s *Files) Seal(keys []Key, trustPlain bool) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seals = seals{keys: keys, trustPlain: trustPlain}
	return nil
}

// checkKeys reports a key that is none, or that is there twice.
func checkKeys(keys []Key) error {
	seen := map[string]bool{}
	for i, k := range keys {
		switch {
		case k.key == nil:
			return fmt.Errorf("record key %d is no key: make it with checkpoint.NewKey", i)
		case seen[k.id]:
			return fmt.Errorf("record key %s is there twice", k.id)
		}
		seen[k.id] = true
	}
	return nil
}
