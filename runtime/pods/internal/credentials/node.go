package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/podwright/podwright/internal/durable"
)

// NodeConfig is the content of the node's own credential file.
type NodeConfig struct {
	text   []byte
	legacy bool
}

// maxNodeConfig bounds the node's credential file.
const maxNodeConfig = 10 << 20

// ReadNodeConfig reads config.json in dir or, if there is none, .dockercfg. Without
// a file, or without a dir, there is no credential (spec/runtime.md 10.5).
func ReadNodeConfig(dir string) (NodeConfig, error) {
	if dir == "" {
		return NodeConfig{}, nil
	}
	for _, name := range []string{"config.json", ".dockercfg"} {
		text, err := durable.ReadFile(filepath.Join(dir, name), maxNodeConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return NodeConfig{}, fmt.Errorf("the node's pull credentials: %w", err)
		}
		return NodeConfig{text: text, legacy: name == ".dockercfg"}, nil
	}
	return NodeConfig{}, nil
}

func (n NodeConfig) parse() ([]keyed, error) {
	switch {
	case len(n.text) == 0:
		return nil, nil
	case n.legacy:
		return parseConfig(n.text)
	}
	return parseConfigJSON(n.text)
}
