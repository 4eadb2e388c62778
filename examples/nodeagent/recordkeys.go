package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podwright/podwright/status/checkpoint"
)

// keyCredential is the name of the systemd credential with the keys, as of
// LoadCredentialEncrypted=podwright-record-key in a unit.
const keyCredential = "podwright-record-key"

// maxKeyFile bounds a file of keys.
const maxKeyFile = 64 << 10

// keyOptions say which keys seal the records.
type keyOptions struct {
	file       string
	trustPlain bool
	keys       []checkpoint.Key
}

func (o *keyOptions) register(flags *flag.FlagSet, agent bool) {
	flags.StringVar(&o.file, "record-key-file", "", "file of mode 600 with the keys that seal the records, one per line, newest first: 32 random bytes each in base64 (openssl rand -base64 32) (default: the systemd credential "+
		keyCredential+" if there is one; otherwise records are not sealed)")
	if agent {
		flags.BoolVar(&o.trustPlain, "record-key-trust-plain", false, "accept records that are not sealed, and seal them: for the first start with a key")
	}
}

// complete reads the keys.
func (o *keyOptions) complete() error {
	file, credential := o.file, false
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); file == "" && dir != "" {
		file = filepath.Join(dir, keyCredential)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			file = ""
		}
		credential = true
	}
	if file != "" {
		keys, err := readKeys(file, credential)
		if err != nil {
			return fmt.Errorf("--record-key-file: %w", err)
		}
		o.keys = keys
	}
	if o.trustPlain && len(o.keys) == 0 {
		return errors.New("--record-key-trust-plain is for a start with --record-key-file")
	}
	return nil
}

// readKeys reads a file of keys. That of a credential is in a folder that is closed to others, and may let
// its group read: an access control list for the service's user shows like that.
func readKeys(path string, credential bool) ([]checkpoint.Key, error) {
	closed := fs.FileMode(0o077)
	if credential {
		closed = 0o037
	}
	text, err := readSecret(path, maxKeyFile+1, closed)
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxKeyFile:
		return nil, fmt.Errorf("%s has more than %d bytes, which is no list of keys", path, maxKeyFile)
	}
	return parseKeys(path, text)
}

// parseKeys reads one key per line. Empty lines, and those that begin with #, do not count. Errors
// name lines and quote nothing of them.
func parseKeys(path string, text []byte) (keys []checkpoint.Key, err error) {
	number := 0
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil {
			return nil, fmt.Errorf("%s:%d is no base64", path, number)
		}
		key, err := checkpoint.NewKey(secret)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if seen[key.ID()] {
			return nil, fmt.Errorf("%s:%d is there twice", path, number)
		}
		seen[key.ID()] = true
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key: openssl rand -base64 32 makes one", path)
	}
	return keys, nil
}
