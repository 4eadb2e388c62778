package offline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/seal"
)

// A file has a header (package seal) and a body:
//
//	podwright-offline <version> <checksum>
//	{"entry": {...}, "value": ...}
//
// In version 2 the body is the sealed document. The name of the file is derived from the entry, and
// bound to the content, so that a renamed file is detected.
const (
	magic         = "podwright-offline"
	plainVersion  = 1
	sealedVersion = 2
	extension     = ".kept"
	// maxFile bounds a file: a config map has at most 1 MiB, but a namespace may have thousands of services.
	maxFile = 16 << 20
	// frameSize bounds what the header and a seal add.
	frameSize = 192
)

var (
	errForeign = errors.New("it is no file of an offline cache")
	errCut     = errors.New("it is damaged or cut short: its checksum is wrong")
	errNewer   = errors.New("it was written by a newer version")
	errPlain   = errors.New("it is not sealed although there is a key: anyone who can write to the folder could have made it")
	errOther   = errors.New("it was renamed: it holds another entry")
)

// Kinds of entries.
const (
	ConfigMap      = "ConfigMap"
	Secret         = "Secret"
	Services       = "Services" // of a namespace
	RuntimeClasses = "RuntimeClasses"
	Node           = "Node"
	Token          = "Token"          // of a pod's service account
	PodCertificate = "PodCertificate" // with its key
	TrustBundle    = "TrustBundle"
	ServiceAccount = "ServiceAccount"
)

// Entry identifies what is kept. Entries are equal if all fields are.
type Entry struct {
	// Kind says what is kept, such as [Secret].
	Kind string `json:"kind"`
	// Namespace and Name are those of an object; of several things issued to a pod, Name distinguishes them.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Pod is the UID of the pod that it was issued to, empty for objects.
	Pod types.UID `json:"pod,omitempty"`
}

// String names the entry in logs.
func (e Entry) String() string {
	switch {
	case e.Pod != "":
		return fmt.Sprintf("%s %s of pod %s", e.Kind, e.Name, e.Pod)
	case e.Namespace == "" || e.Name == "":
		return strings.TrimSpace(e.Kind + " " + e.Namespace + e.Name)
	}
	return e.Kind + " " + e.Namespace + "/" + e.Name
}

// fileName returns the name of the entry's file.
func (e Entry) fileName() string {
	h := sha256.New()
	for _, part := range []string{e.Kind, e.Namespace, e.Name, string(e.Pod)} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16]) + extension
}

// isFileName reports whether a file may belong to a cache.
func isFileName(name string) bool {
	raw, err := hex.DecodeString(strings.TrimSuffix(name, extension))
	return err == nil && len(raw) == 16 && strings.HasSuffix(name, extension)
}

// document is what a file contains.
type document struct {
	Entry Entry           `json:"entry"`
	Value json.RawMessage `json:"value"`
}

// encode returns the file of a document.
func encode(keys seal.Keys, name string, text []byte) ([]byte, error) {
	if len(keys) == 0 {
		return seal.Frame(magic, plainVersion, text), nil
	}
	body, err := keys.Seal(name, text)
	return seal.Frame(magic, sealedVersion, body), err
}

// decode returns the document in the file of this name, and whether [encode] would write the same
// file now. Errors never quote it.
func decode(keys seal.Keys, name string, data []byte) (text []byte, found document, current bool, err error) {
	version, body, err := seal.Unframe(magic, data)
	switch {
	case errors.Is(err, seal.ErrChecksum):
		return nil, found, false, errCut
	case err != nil:
		return nil, found, false, errForeign
	}
	switch version {
	case plainVersion:
		if text, current = body, true; len(keys) > 0 {
			return nil, found, false, errPlain
		}
	case sealedVersion:
		if text, current, err = keys.Open(name, body); err != nil {
			return nil, found, false, err
		}
	default:
		return nil, found, false, errNewer
	}
	if json.Unmarshal(text, &found) != nil {
		return nil, document{}, false, errForeign
	}
	if found.Entry.fileName() != name {
		return nil, document{}, false, errOther
	}
	return text, found, current, nil
}
