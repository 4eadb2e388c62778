package main

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The length of a token: what cannot be guessed, and no more than fits a header well.
const (
	minToken = 16
	maxToken = 1024
)

// token is what clients over TCP have to know.
type token struct{ digest [sha256.Size]byte }

// defaultTokenFile is made at the first start that needs it.
func defaultTokenFile(root string) string { return filepath.Join(root, "nodeagent.token") }

// readToken reads the token of a file that only its owner can read.
func readToken(path string) (string, error) {
	data, err := readSecret(path, maxToken+2, 0o077)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if len(text) < minToken || len(text) > maxToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: want one word of %d to %d letters, digits and signs", path, minToken, maxToken)
	}
	return text, nil
}

// readSecret reads the beginning of a file that has none of the modes closed, of the user or root.
func readSecret(path string, limit int64, closed fs.FileMode) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not keep the agent
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkSecretFile(info, os.Geteuid(), closed); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// checkSecretFile says why a file cannot hold a secret of the user.
func checkSecretFile(info fs.FileInfo, user int, closed fs.FileMode) error {
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

// openToken reads the token; with create a file that is missing is made.
func openToken(path string, create bool) (token, error) {
	text, err := readToken(path)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err := writeToken(path, rand.Text()); err != nil {
			return token{}, err
		}
		text, err = readToken(path)
	}
	if err != nil {
		return token{}, fmt.Errorf("--listen-token-file: %w", err)
	}
	return token{sha256.Sum256([]byte(text))}, nil
}

// writeToken makes the file, whole or not at all.
func writeToken(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".nodeagent.token-") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// sentBy reports whether the request has the token; how long it takes says nothing of it.
func (t token) sentBy(r *http.Request) bool {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	digest := sha256.Sum256([]byte(strings.TrimSpace(text)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1
}
