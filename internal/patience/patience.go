package patience

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Variable names the environment variable with the factor, 1 or more.
const Variable = "PODWRIGHT_PATIENCE"

var factor = parse(os.Getenv(Variable))

// parse reads a factor. A wrong one is a mistake in how the tests were started; if it were ignored,
// they would fail or hang for no visible reason.
func parse(text string) float64 {
	if text == "" {
		return 1
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 1 && f <= 100) {
		panic(fmt.Sprintf("%s is %q; want a number from 1 to 100", Variable, text))
	}
	return f
}

// Of returns how long to wait for what an idle machine does within limit.
func Of(limit time.Duration) time.Duration {
	return time.Duration(float64(limit) * factor)
}
