package registrykey

import (
	"path"
	"strings"
)

// Normalize brings a key into the form of spec/runtime.md 10.2: host and path,
// without scheme and API version.
func Normalize(key string) string {
	for _, scheme := range []string{"http://", "https://"} {
		key = strings.TrimPrefix(key, scheme)
	}
	host, rest, _ := strings.Cut(key, "/")
	rest = "/" + rest
	for _, version := range []string{"/v1/", "/v2/"} {
		if strings.HasPrefix(rest, version) {
			rest = rest[len(version)-1:]
			break
		}
	}
	if rest == "/" {
		return host
	}
	return host + rest
}

// Repository returns the name that keys are matched with: the registry's host and the path, without
// tag and digest. For "x" it is "docker.io/library/x".
func Repository(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return Complete(name)
}

// Complete adds the registry and the folder that a name leaves out, as runtimes do. Tag and digest
// stay as they are.
func Complete(image string) string {
	host, rest, ok := strings.Cut(image, "/")
	switch {
	case !ok:
		return "docker.io/library/" + image
	case host == "index.docker.io", host == "docker.io":
		if !strings.Contains(rest, "/") {
			rest = "library/" + rest
		}
		return "docker.io/" + rest
	case !IsHost(host):
		return "docker.io/" + image
	}
	return image
}

// IsHost reports whether the part of an image's name before the first slash is a registry, and not
// a folder in the default one.
func IsHost(part string) bool {
	return strings.ContainsAny(part, ".:") || part == "localhost" || strings.ToLower(part) != part
}

// Matches reports whether a key covers a repository (spec/runtime.md 10.3): the ports are equal,
// the hosts have the same number of labels, each label of the repository's host matches the pattern
// in the key, and the repository's path begins with the key's path.
func Matches(key, repository string) bool {
	keyHost, keyPath, _ := strings.Cut(key, "/")
	host, rest, _ := strings.Cut(repository, "/")
	if !strings.HasPrefix(rest, keyPath) {
		return false
	}
	keyHost, keyPort := splitPort(keyHost)
	host, port := splitPort(host)
	if keyPort != port {
		return false
	}
	patterns, labels := strings.Split(keyHost, "."), strings.Split(host, ".")
	if len(patterns) != len(labels) {
		return false
	}
	for i, pattern := range patterns {
		if ok, err := path.Match(pattern, labels[i]); pattern != labels[i] && (err != nil || !ok) {
			return false
		}
	}
	return true
}

// splitPort cuts the port off; the colons of an IPv6 address are in brackets.
func splitPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.ContainsRune(host[i:], ']') {
		return host, ""
	}
	return host[:i], host[i+1:]
}
