package checkpoint

import (
	"errors"
	"fmt"

	"github.com/podwright/podwright/internal/seal"
)

// A sealed record has version 2 in its header, and this in place of the JSON document:
//
//	<id of the key>
//	<nonce, ciphertext of the document, tag of AES-256-GCM>
//
// Everything is encrypted: commands, annotations and messages hold secrets too, and the cipher that
// hides them also detects changes. Each file has its own key, derived from the secret and the name
// of the file (package seal), so no record can take the place of another pod's.

var errPlain = errors.New("it is not sealed: anyone who can write to the folder could have made it")

// sealedError says that a record is sealed with a key that was not given.
type sealedError = seal.UnknownKeyError

// Key seals the records of a node: without it, they cannot be read, changed or passed off as
// another pod's (CK12). The zero value is not a key. A Key is safe for concurrent use, and shows
// its ID when printed.
type Key struct{ key seal.Key }

// NewKey returns the key of a secret: 32 random bytes, such as "openssl rand 32" prints. It keeps a
// copy. Errors never quote the secret.
func NewKey(secret []byte) (Key, error) {
	k, err := seal.NewKey("record", secret)
	return Key{k}, err
}

// ID names the key in records and messages: 16 hexadecimal digits that reveal nothing about the
// secret. The zero Key has an empty ID.
func (k Key) ID() string { return k.key.ID() }

// String returns the ID.
func (k Key) String() string { return k.ID() }

// GoString returns the ID.
func (k Key) GoString() string { return k.ID() }

// seals are the keys of a store. The zero value neither seals nor opens anything.
type seals struct {
	keys []Key // newest first
	// trustPlain accepts records that are not sealed although there is a key.
	trustPlain bool
}

// all returns the keys in the form that package seal uses.
func (s seals) all() seal.Keys {
	keys := make(seal.Keys, len(s.keys))
	for i, k := range s.keys {
		keys[i] = k.key
	}
	return keys
}

// seal returns the body of a sealed record.
func (s seals) seal(name string, document []byte) ([]byte, error) {
	return s.all().Seal(name, document)
}

// open returns the document of a sealed record, and whether the newest key sealed it.
func (s seals) open(name string, body []byte) (document []byte, newest bool, err error) {
	document, newest, err = s.all().Open(name, body)
	switch {
	case errors.Is(err, seal.ErrForm):
		return nil, false, fmt.Errorf("%w: no key", errCorrupt)
	case errors.Is(err, seal.ErrChanged):
		return nil, false, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return document, newest, err
}

// sealer is a [Store] that can seal records.
type sealer interface {
	Seal(keys []Key, trustPlain bool) error
}

// Seal makes the store seal what it writes with the first key, and open what any of the keys has
// sealed. Call it before any other method; without keys it does nothing. With keys, records that
// are not sealed are refused unless they are trusted; see [Options].
func (s *Files) Seal(keys []Key, trustPlain bool) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seals = seals{keys: keys, trustPlain: trustPlain}
	return nil
}

// checkKeys reports an invalid key, or one that is given twice.
func checkKeys(keys []Key) error {
	if err := (seals{keys: keys}).all().Check(); err != nil {
		return fmt.Errorf("record %w", err)
	}
	return nil
}
