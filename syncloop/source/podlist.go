package source

import (
	stdjson "encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// items returns the manifests in an answer: the answer itself, or the items of a
// list, each with its kind (H4).
func items(body []byte) ([][]byte, error) {
	document, err := single(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	asJSON, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	var list struct {
		APIVersion, Kind string
		Items            []map[string]stdjson.RawMessage
	}
	if err := stdjson.Unmarshal(asJSON, &list); err != nil {
		return [][]byte{document}, nil // the decoder says what is wrong
	}
	if list.Kind != "PodList" && list.Kind != "List" {
		return [][]byte{document}, nil
	}
	if list.APIVersion != "v1" {
		return nil, fmt.Errorf("%w: it is a list of version %q, not of version \"v1\"", ErrMalformed, list.APIVersion)
	}
	out := make([][]byte, 0, len(list.Items))
	for i, item := range list.Items {
		if item == nil {
			return nil, fmt.Errorf("%w: item %d of the list is null", ErrMalformed, i+1)
		}
		if list.Kind == "PodList" { // its items need not say what they are
			setMissing(item, "kind", "Pod")
			setMissing(item, "apiVersion", "v1")
		}
		text, err := stdjson.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("%w: item %d of the list: %w", ErrMalformed, i+1, err)
		}
		out = append(out, text)
	}
	return out, nil
}

func setMissing(item map[string]stdjson.RawMessage, key, value string) {
	if _, ok := item[key]; !ok {
		item[key] = stdjson.RawMessage(`"` + value + `"`)
	}
}
