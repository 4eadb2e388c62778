package podinfo

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestQuantitiesThatNeverEndAreKnown: spec/syncloop.md D10.
func TestQuantitiesThatNeverEndAreKnown(t *testing.T) {
	for text, readable := range map[string]bool{
		"": true, "1": true, "5E": true, "5Ei": true, "1e3": true, "-1E-3": true, "1e0000000003": true, "1e1000": true, "1e-1000": true, "no quantity": true, "e": true, "1e+": true,
		"1e1001": false, "1E-1001": false, "1e+1001": false, "1e-999999999": false, "1e99999999999999999999": false, "1e+-999999999": false,
		strings.Repeat("1", 1001): false, "0." + strings.Repeat("0", 999): false,
	} {
		if got := ReadableQuantity(text); got != readable {
			t.Errorf("%.30q: %v", text, got)
		}
	}
	for text, bounded := range map[string]bool{"0": true, "1m": true, "100E": true, "-100E": true, "1e1000": true, "1e1001": false, "-1e999999999": false} {
		q := resource.MustParse(text)
		if got := BoundedQuantity(q); got != bounded {
			t.Errorf("%s: %v", text, got)
		}
		if q.String() != resource.NewQuantity(0, "").String() && q.Cmp(resource.MustParse(text)) != 0 {
			t.Errorf("%s changed", text)
		}
	}
}
