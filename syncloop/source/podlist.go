package source

import (
	"fmt"
	"maps"
)

// items returns the manifests in an answer: the answer itself, or the items of a
// list, each with its kind (H4). It refuses a list with more than most items
// (SRC6).
func items(answer document, most int) ([]document, error) {
	fields, _ := answer.content.(map[any]any)
	list, isList := fields["items"].([]any)
	kind := fields["kind"]
	if kind != "PodList" && kind != "List" || !isList && fields["items"] != nil {
		return []document{answer}, nil // the decoder says what is wrong
	}
	// An API server writes the items of an empty list, too. Without them the key may be misspelt (SRC4).
	if _, given := fields["items"]; !given {
		return nil, fmt.Errorf("%w: it is a list without items; a list of no pods has \"items\": []", ErrMalformed)
	}
	if version := fields["apiVersion"]; version != "v1" {
		return nil, fmt.Errorf("%w: it is a list of version %q, not of version \"v1\"", ErrMalformed, fmt.Sprint(version))
	}
	if len(list) > most {
		return nil, fmt.Errorf("%w pods: the list has %d, at most %d are taken; serve fewer or raise HTTPOptions.MaxPods", ErrTooMany, len(list), most)
	}
	out := make([]document, 0, len(list))
	for i, item := range list {
		if item == nil {
			return nil, fmt.Errorf("%w: item %d of the list is null", ErrMalformed, i+1)
		}
		pod, ok := item.(map[any]any)
		if !ok {
			return nil, fmt.Errorf("%w: item %d of the list is no pod", ErrMalformed, i+1)
		}
		if kind == "PodList" { // its items need not say what they are
			pod = maps.Clone(pod) // an alias may repeat it
			setMissing(pod, "kind", "Pod")
			setMissing(pod, "apiVersion", "v1")
		}
		out = append(out, document{content: pod})
	}
	return out, nil
}

func setMissing(item map[any]any, key, value string) {
	if _, ok := item[key]; !ok {
		item[key] = value
	}
}
