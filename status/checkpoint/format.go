package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/seal"
)

// A record file has a header (package seal) and a JSON document:
//
//	podwright-checkpoint <version> <checksum>
//	{ ... }
//
// See seal.go for what a sealed file has instead of the document.
const (
	magic         = "podwright-checkpoint"
	plainVersion  = 1
	sealedVersion = 2
	// maxSize is the limit of a record in its file (spec/status.md 9.11). See [shrink] for what a
	// record above it loses.
	maxSize = 256 << 10
	// maxMessage is how much of an end's message is kept (CK1).
	maxMessage = 12 << 10
	// headerSize bounds the header, including what a seal adds.
	headerSize = 192
)

var (
	errCorrupt = errors.New("checksum or form is wrong")
	errNewer   = errors.New("written by a newer version")
)

// encode returns a record in the form of its file.
func (s seals) encode(r *Record) ([]byte, error) {
	if r.UID == "" {
		return nil, errors.New("a record needs a UID")
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	for step := 0; len(body)+headerSize > maxSize; step++ {
		smaller := shrink(r, step)
		if smaller == nil {
			return nil, fmt.Errorf("record of %d bytes is over the limit of %d", len(body), maxSize)
		}
		if body, err = json.Marshal(smaller); err != nil {
			return nil, err
		}
	}
	if len(s.keys) == 0 {
		return seal.Frame(magic, plainVersion, body), nil
	}
	body, err = s.seal(fileName(r.UID), body)
	return seal.Frame(magic, sealedVersion, body), err
}

// unframe returns the version and the body of a file. The error wraps errCorrupt or is errNewer.
func unframe(data []byte) (version int, body []byte, err error) {
	version, body, err = seal.Unframe(magic, data)
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("%w: %w", errCorrupt, err)
	case version < 1:
		return 0, nil, fmt.Errorf("%w: version", errCorrupt)
	case version > sealedVersion:
		return 0, nil, errNewer
	}
	return version, body, nil
}

// decode reads the file with this name, and reports whether it is exactly what [seals.encode] would
// write now. The error is errNewer or wraps errCorrupt, errPlain or a sealedError; it quotes
// nothing of the content.
func (s seals) decode(name string, data []byte) (r *Record, current bool, err error) {
	version, body, err := unframe(data)
	if err != nil {
		return nil, false, err
	}
	switch {
	case version == sealedVersion:
		if body, current, err = s.open(name, body); err != nil {
			return nil, false, err
		}
	case len(s.keys) == 0:
		current = true
	case !s.trustPlain:
		return nil, false, errPlain
	}
	r = &Record{}
	if json.Unmarshal(body, r) != nil || r.UID == "" {
		return nil, false, fmt.Errorf("%w: content", errCorrupt)
	}
	if fileName(r.UID) != name {
		return nil, false, fmt.Errorf("%w: the record of another pod", errCorrupt)
	}
	return r, current, nil
}

// dropUnknown removes from a record the results of unknown kinds of probe, which a newer version
// may have left, and reports whether there were any.
func dropUnknown(r *Record) bool {
	found := false
	for _, c := range r.Containers {
		found = c.Probes.DropUnknown() || found
	}
	return found
}

// fileName returns the name of a pod's file: the UID if that is a harmless name, as every UID from
// an API is; any other UID is hashed, so that none leaves the folder or takes another's place.
func fileName(uid types.UID) string {
	if plainName(string(uid)) {
		return string(uid)
	}
	sum := sha256.Sum256([]byte(uid))
	return hashMark + hex.EncodeToString(sum[:])
}

const hashMark = "%"

// plainName reports whether a UID can be used as a file name unchanged.
func plainName(s string) bool {
	if s == "" || len(s) > 200 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// recordName reports whether a file with this name could be a record, and of which UID; the UID is
// empty for a hashed name.
func recordName(name string) (uid types.UID, ok bool) {
	if rest, hashed := bytes.CutPrefix([]byte(name), []byte(hashMark)); hashed {
		raw, err := hex.DecodeString(string(rest))
		return "", err == nil && len(raw) == sha256.Size
	}
	return types.UID(name), plainName(name)
}
