// Package secretfile reads files with secrets (tokens, headers, keys) that no other user can read.
// Errors name the file and the line, and never quote content.
package secretfile

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Closed are the mode bits that a file of secrets must not have.
const Closed fs.FileMode = 0o077

// credentialClosed are the mode bits that a credential must not have. Its folder is closed to others, and
// an access control list for the service's user shows up as group read permission, so that is allowed.
const credentialClosed fs.FileMode = 0o037

// MaxKeys bounds the size of a file of keys, in bytes.
const MaxKeys = 64 << 10

// Read reads at most limit bytes of a file that belongs to the user or root and has none of the closed mode bits.
func Read(path string, limit int64, closed fs.FileMode) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block the agent
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := check(info, os.Geteuid(), closed); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// check says why a file cannot hold the user's secret.
func check(info fs.FileInfo, user int, closed fs.FileMode) error {
	if !info.Mode().IsRegular() {
		return errors.New("is not a file")
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != user && s.Uid != 0 {
		return fmt.Errorf("belongs to user %d, and the agent runs as user %d; chown it", s.Uid, user)
	}
	if info.Mode().Perm()&closed != 0 {
		return fmt.Errorf("is open to other users (mode %04o); run chmod 600 on it, and change the secret in it, which they may have read", info.Mode().Perm())
	}
	return nil
}

// Key is a key identified by an ID.
type Key interface{ ID() string }

// Keys reads the keys of a file. Without a file it reads the systemd credential of this name, and returns
// none if there is no such credential. A file has one key per line, newest first: 32 random bytes in
// base64, as "openssl rand -base64 32" makes them. Empty lines and lines that begin with # are ignored.
func Keys[K Key](path, credential string, make func(secret []byte) (K, error)) ([]K, error) {
	closed := Closed
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); path == "" && dir != "" {
		path, closed = filepath.Join(dir, credential), credentialClosed
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if path == "" {
		return nil, nil
	}
	text, err := Read(path, MaxKeys+1, closed)
	switch {
	case err != nil:
		return nil, err
	case len(text) > MaxKeys:
		return nil, fmt.Errorf("%s has more than %d bytes, which is no list of keys", path, MaxKeys)
	}
	return parse(path, text, make)
}

func parse[K Key](path string, text []byte, make func(secret []byte) (K, error)) (keys []K, err error) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil {
			return nil, fmt.Errorf("%s:%d is no base64", path, number)
		}
		key, err := make(secret)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if slices.ContainsFunc(keys, func(k K) bool { return k.ID() == key.ID() }) {
			return nil, fmt.Errorf("%s:%d is there twice", path, number)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key: openssl rand -base64 32 makes one", path)
	}
	return keys, nil
}
