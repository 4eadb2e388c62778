package main

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/podwright/podwright/examples/internal/secretfile"
	"github.com/podwright/podwright/internal/durable"
)

// The length of a token: long enough not to be guessed, and short enough for a header.
const (
	minToken = 16
	maxToken = 1024
)

// token is the secret that clients over TCP must know.
type token struct{ digest [sha256.Size]byte }

// defaultTokenFile is created at the first start that needs it.
func defaultTokenFile(root string) string { return filepath.Join(root, "nodeagent.token") }

// readToken reads the token of a file that only its owner can read.
func readToken(path string) (string, error) {
	data, err := secretfile.Read(path, maxToken+2, secretfile.Closed)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if len(text) < minToken || len(text) > maxToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: want one word of %d to %d letters, digits and signs", path, minToken, maxToken)
	}
	return text, nil
}

// openToken reads the token; with create it creates a missing file.
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
	return tokenOf(text), nil
}

func tokenOf(text string) token { return token{sha256.Sum256([]byte(text))} }

// writeToken creates the file atomically, in a folder that exists.
func writeToken(path, text string) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(durable.WriteShared(root, filepath.Base(path), []byte(text+"\n")), root.Close())
}

// sentBy reports whether the request has the token, in constant time.
func (t token) sentBy(r *http.Request) bool {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	digest := sha256.Sum256([]byte(strings.TrimSpace(text)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1
}
