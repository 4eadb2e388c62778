// Package objects serves config maps and secrets from a folder of manifests, as a
// node without an API server may have them. It is a reference for implementations
// of pods.ObjectGetter:
//
//	folder ──► *.yaml, *.yml, *.json, read on every request ──► ConfigMap or Secret by namespace and name
//
// A file may hold several documents. Objects without a namespace are in "default".
// Errors name files and objects and never quote what a file holds.
package objects

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/podwright/podwright/runtime"
)

// maxFile bounds one manifest; API servers take no larger object than 1.5 MiB.
const maxFile = 4 << 20

// Dir is a folder of manifests. It is safe for concurrent use.
type Dir struct {
	// Path of the folder.
	Path string
}

// GetConfigMap returns a config map; one that no file defines is an error that
// matches runtime.ErrNotFound.
func (d Dir) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	out := &v1.ConfigMap{}
	if err := d.find(ctx, "ConfigMap", namespace, name, out); err != nil {
		return nil, err
	}
	return out, nil
}

// GetSecret returns a secret, its stringData merged into its data; one that no file
// defines is an error that matches runtime.ErrNotFound.
func (d Dir) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	out := &v1.Secret{}
	if err := d.find(ctx, "Secret", namespace, name, out); err != nil {
		return nil, err
	}
	if len(out.StringData) > 0 && out.Data == nil {
		out.Data = map[string][]byte{}
	}
	for key, value := range out.StringData {
		out.Data[key] = []byte(value)
	}
	out.StringData = nil
	return out, nil
}

// find decodes the object of a kind and name into out. A file that cannot be read
// matters only if no other has the object: it might have been there.
func (d Dir) find(ctx context.Context, kind, namespace, name string, out any) error {
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	var broken error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
		default:
			continue
		}
		found, err := findIn(root, e.Name(), kind, namespace, name, out)
		if found {
			return err
		}
		broken = errors.Join(broken, err)
	}
	if broken != nil {
		return broken
	}
	return runtime.ErrNotFound
}

// findIn looks through the documents of one file.
func findIn(root *os.Root, file, kind, namespace, name string, out any) (found bool, err error) {
	text, err := read(root, file)
	if err != nil {
		return false, err
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		var head struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
		}
		if err != nil || yaml.Unmarshal(document, &head) != nil {
			// What the decoder says quotes the file.
			return false, fmt.Errorf("manifest %s is not valid YAML", file)
		}
		if head.Kind != kind || head.APIVersion != "v1" || head.Name != name || namespaceOf(head.Namespace) != namespace {
			continue
		}
		if yaml.Unmarshal(document, out) != nil {
			return true, fmt.Errorf("manifest %s: the %s %s has a field of the wrong type, or data that is not base64", file, kind, name)
		}
		return true, nil
	}
}

// read reads a regular file; a pipe is not waited for.
func read(root *os.Root, file string) ([]byte, error) {
	info, err := root.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("manifest %s is not a file", file)
	}
	f, err := root.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("manifest %s is larger than %d bytes", file, maxFile)
	}
	return text, err
}

func namespaceOf(namespace string) string {
	if namespace = strings.TrimSpace(namespace); namespace == "" {
		return v1.NamespaceDefault
	}
	return namespace
}
