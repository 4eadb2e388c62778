package podinfo

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponent bounds the power of ten of a quantity, and maxDigits its length. A quantity is
// exact: reading 1e-999999999, or adding 1 to 1e999999999, writes out all of its digits and
// does not end. What a machine can have is below 1e20 (spec/syncloop.md D10).
const (
	maxExponent = 1000
	maxDigits   = 1000
)

// ReadableQuantity reports whether a text from outside may be read as a quantity. Text that is
// no quantity may: reading it ends at once, with an error.
func ReadableQuantity(text string) bool {
	i := strings.LastIndexAny(text, "eE")
	if len(text) > maxDigits || i < 0 {
		return len(text) <= maxDigits
	}
	digits := strings.TrimLeft(text[i+1:], "+-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return true // a suffix, as in 5E and 5Ei, or no quantity
	}
	exponent, err := strconv.Atoi(digits)
	return err == nil && exponent <= maxExponent
}

// BoundedQuantity reports whether arithmetic with a quantity ends soon.
func BoundedQuantity(q resource.Quantity) bool {
	q = q.DeepCopy()
	d := q.AsDec()
	return d.Scale() <= maxExponent && d.Scale() >= -maxExponent && d.UnscaledBig().BitLen() <= 4*maxDigits
}
