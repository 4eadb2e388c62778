package podinfo

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponent bounds the power of ten of a quantity, and maxDigits its length. A quantity is exact:
// reading 1e-999999999, or adding 1 to 1e999999999, writes out all of its digits and practically
// never ends. Everything a machine can have is below 1e20 (spec/syncloop.md D10).
const (
	maxExponent = 1000
	maxDigits   = 1000
)

// ReadableQuantity reports whether a text from outside may be parsed as a quantity. Text that is
// not a quantity may be: parsing it fails at once.
func ReadableQuantity(text string) bool {
	i := strings.LastIndexAny(text, "eE")
	if len(text) > maxDigits || i < 0 {
		return len(text) <= maxDigits
	}
	digits := strings.TrimLeft(text[i+1:], "+-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return true // a suffix, as in 5E and 5Ei, or not a quantity
	}
	exponent, err := strconv.Atoi(digits)
	return err == nil && exponent <= maxExponent
}

// BoundedQuantity reports whether arithmetic with a quantity ends quickly.
func BoundedQuantity(q resource.Quantity) bool {
	q = q.DeepCopy()
	d := q.AsDec()
	return d.Scale() <= maxExponent && d.Scale() >= -maxExponent && d.UnscaledBig().BitLen() <= 4*maxDigits
}
