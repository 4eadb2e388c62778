package main

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/podwright/podwright/examples/internal/secretfile"
)

// maxHeaderFile bounds a file of headers, in bytes: a server takes no more.
const maxHeaderFile = 1 << 20

// readHeaders reads a file that only its owner may read. No error quotes its content.
func readHeaders(path string) (http.Header, error) {
	data, err := secretfile.Read(path, maxHeaderFile+1, secretfile.Closed)
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxHeaderFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxHeaderFile)
	}
	headers := http.Header{}
	for i, line := range strings.Split(string(data), "\n") {
		name, value, problem := header(strings.TrimRight(line, "\r"))
		if problem != "" {
			return nil, fmt.Errorf("%s: line %d %s", path, i+1, problem)
		}
		if name != "" {
			headers.Add(name, value)
		}
	}
	return headers, nil
}

// header parses one line; an empty one is not a header. problem says what is wrong with it, and
// quotes nothing.
func header(line string) (name, value, problem string) {
	if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		return "", "", "has a control character"
	}
	if line = strings.TrimSpace(line); line == "" {
		return "", "", ""
	}
	name, value, found := strings.Cut(line, ":")
	if !found || name == "" || strings.ContainsFunc(name, func(r rune) bool { return !inHeaderName(r) }) {
		return "", "", `is not "Name: value"`
	}
	return name, strings.TrimSpace(value), ""
}

// inHeaderName reports whether a character is allowed in a header's name (RFC 9110 5.6.2).
func inHeaderName(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
