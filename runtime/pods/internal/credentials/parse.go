package credentials

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/registrykey"
)

// entry is the value of one key of a configuration.
type entry struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"`
}

// keyed is the credential of one key.
type keyed struct {
	key  string
	auth *runtimeapi.AuthConfig
}

// parseSecret reads a pull secret; one of another type, or without data, holds
// nothing (spec/runtime.md 10.1).
func parseSecret(s *v1.Secret) ([]keyed, error) {
	switch s.Type {
	case v1.SecretTypeDockerConfigJson:
		if data := s.Data[v1.DockerConfigJsonKey]; len(data) > 0 {
			return parseConfigJSON(data)
		}
	case v1.SecretTypeDockercfg:
		if data := s.Data[v1.DockerConfigKey]; len(data) > 0 {
			return parseConfig(data)
		}
	}
	return nil, nil
}

// parseConfigJSON reads an object with auths, parseConfig what auths holds.
func parseConfigJSON(data []byte) ([]keyed, error) {
	var config struct {
		Auths json.RawMessage `json:"auths"`
	}
	if json.Unmarshal(data, &config) != nil {
		return nil, errNotJSON
	}
	if len(config.Auths) == 0 {
		return nil, nil
	}
	return parseConfig(config.Auths)
}

// The decoders' own messages quote what they read.
var (
	errNotJSON = errors.New("it is not a JSON object of registries")
	errNotAuth = errors.New("auth is not base64 of user:password")
)

func parseConfig(data []byte) ([]keyed, error) {
	var entries map[string]entry
	if json.Unmarshal(data, &entries) != nil {
		return nil, errNotJSON
	}
	var out []keyed
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		e := entries[key]
		if e.Auth != "" {
			var err error
			if e.Username, e.Password, err = decodeAuth(e.Auth); err != nil {
				return nil, fmt.Errorf("registry %q: %w", key, err)
			}
		}
		if e.Username == "" && e.Password == "" {
			continue // a credential helper of the user has it
		}
		out = append(out, keyed{registrykey.Normalize(key), &runtimeapi.AuthConfig{Username: e.Username, Password: e.Password}})
	}
	return out, nil
}

// decodeAuth splits base64 of user:password, padded or not. It may have line breaks, as the
// tool base64 makes them; the decoder passes over those within.
func decodeAuth(text string) (username, password string, err error) {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "=\r\n"))
	if err != nil {
		return "", "", errNotAuth
	}
	username, password, ok := strings.Cut(string(plain), ":")
	if !ok {
		return "", "", errNotAuth
	}
	return username, password, nil
}
