package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// A record file is one header line and a JSON document:
//
//	podwright-checkpoint <version> <sha256 of the words before it and of the document>
//	{ ... }
//
// Later versions keep the header, so that a damaged file and a newer one can always
// be told apart.
const (
	magic         = "podwright-checkpoint"
	formatVersion = 1
	// maxSize is the limit of a record in its file (spec/status.md 9.11). Messages
	// are cut to stay below it, then the pod is left out.
	maxSize = 256 << 10
	// maxMessage is how much of a message of an end is kept (CK1).
	maxMessage = 12 << 10
	// headerSize bounds the header.
	headerSize = 128
)

var (
	errCorrupt = errors.New("checksum or form is wrong")
	errNewer   = errors.New("written by a newer version")
)

// encode returns a record as it is in its file.
func encode(r *Record) ([]byte, error) {
	if r.UID == "" {
		return nil, errors.New("a record needs a UID")
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	for step := 0; len(body)+headerSize > maxSize; step++ {
		if r = shrink(r, step); r == nil {
			return nil, fmt.Errorf("record of %d bytes is over the limit of %d", len(body), maxSize)
		}
		if body, err = json.Marshal(r); err != nil {
			return nil, err
		}
	}
	title := magic + " " + strconv.Itoa(formatVersion)
	header := title + " " + checksum(title, body) + "\n"
	return append([]byte(header), body...), nil
}

// checksum covers the version too: a damaged digit is no newer version.
func checksum(title string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(title))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// decode reads a file. The error is errNewer or wraps errCorrupt; it quotes nothing
// of the content.
func decode(data []byte) (*Record, error) {
	header, body, ok := bytes.Cut(data, []byte("\n"))
	words := bytes.Split(header, []byte(" "))
	if !ok || len(words) != 3 || string(words[0]) != magic {
		return nil, fmt.Errorf("%w: no header", errCorrupt)
	}
	title := string(words[0]) + " " + string(words[1])
	if checksum(title, body) != string(words[2]) {
		return nil, fmt.Errorf("%w: checksum", errCorrupt)
	}
	version, err := strconv.Atoi(string(words[1]))
	switch {
	case err != nil || version < 1:
		return nil, fmt.Errorf("%w: version", errCorrupt)
	case version > formatVersion:
		return nil, errNewer
	}
	r := &Record{}
	if json.Unmarshal(body, r) != nil || r.UID == "" {
		return nil, fmt.Errorf("%w: content", errCorrupt)
	}
	return r, nil
}

// dropUnknown takes the results of unknown kinds of probe, which a newer version may have
// left, out of a record, and reports whether there were any.
func dropUnknown(r *Record) bool {
	found := false
	for _, c := range r.Containers {
		found = c.Probes.DropUnknown() || found
	}
	return found
}

// fileName is the name of a pod's file. It is the UID if that is harmless as a
// name, which every UID of an API is; any other is hashed, so that none leaves the
// folder or takes another's place.
func fileName(uid types.UID) string {
	if plainName(string(uid)) {
		return string(uid)
	}
	sum := sha256.Sum256([]byte(uid))
	return hashMark + hex.EncodeToString(sum[:])
}

const hashMark = "%"

// plainName reports whether a UID may be a file name as it is.
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

// recordName reports whether a file of this name could be a record, and of which
// UID; that is empty for a hashed one.
func recordName(name string) (uid types.UID, ok bool) {
	if rest, hashed := bytes.CutPrefix([]byte(name), []byte(hashMark)); hashed {
		raw, err := hex.DecodeString(string(rest))
		return "", err == nil && len(raw) == sha256.Size
	}
	return types.UID(name), plainName(name)
}
