package images

import (
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/registrykey"
)

// The grammar of image references: an optional registry, path elements in lower
// case, an optional tag and an optional digest.
var (
	registryForm = regexp.MustCompile(`^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*)(:[0-9]+)?$`)
	elementForm  = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)
	tagForm      = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	digestForm   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*([+._-][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$`)
)

// maxRepository is the longest repository name.
const maxRepository = 255

// Reference is a parsed image name.
type Reference struct {
	// Text is what the runtime gets.
	Text        string
	Tag, Digest string
}

// Parse reads an image name. A name without tag and digest gets the tag latest; nothing
// else is added (spec/runtime.md 9.2). An absolute path names no image of a registry and
// stays unchanged: some runtimes run a folder.
func Parse(text string) (Reference, error) {
	if strings.HasPrefix(text, "/") && !strings.ContainsRune(text, 0) {
		return Reference{Text: text}, nil
	}
	r := Reference{Text: text}
	name := text
	var hasDigest bool
	if name, r.Digest, hasDigest = strings.Cut(name, "@"); hasDigest && !digestForm.MatchString(r.Digest) {
		return Reference{}, fmt.Errorf("image %q: %q is not a digest", text, r.Digest)
	}
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		r.Tag, name = name[i+1:], name[:i]
		if !tagForm.MatchString(r.Tag) {
			return Reference{}, fmt.Errorf("image %q: %q is not a tag", text, r.Tag)
		}
	}
	if err := checkRepository(name); err != nil {
		return Reference{}, fmt.Errorf("image %q: %w", text, err)
	}
	if r.Tag == "" && r.Digest == "" {
		r.Tag = "latest"
		r.Text += ":latest"
	}
	return r, nil
}

// checkRepository checks what stands before tag and digest.
func checkRepository(name string) error {
	if len(name) > maxRepository {
		return fmt.Errorf("the name is longer than %d bytes", maxRepository)
	}
	path := name
	if host, rest, ok := strings.Cut(name, "/"); ok && registrykey.IsHost(host) {
		if !registryForm.MatchString(host) {
			return fmt.Errorf("%q is not a registry", host)
		}
		path = rest
	}
	for element := range strings.SplitSeq(path, "/") {
		if !elementForm.MatchString(element) {
			return fmt.Errorf("%q is not a repository name", element)
		}
	}
	return nil
}

// Policy returns the container's pull policy, by the tag if it has none
// (spec/runtime.md 9.1).
func Policy(c *v1.Container) v1.PullPolicy {
	if c.ImagePullPolicy != "" {
		return c.ImagePullPolicy
	}
	return podinfo.PullPolicy(c.Image)
}
