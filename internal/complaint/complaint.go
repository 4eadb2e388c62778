package complaint

import (
	"strings"
	"time"
	"unicode"

	"github.com/go-logr/logr"
)

// reminder is the time between two lines about one failure.
const reminder = 30 * time.Second

// Complaint is what has been logged about one activity so far. The zero value is ready. It is not
// safe for concurrent use: the activity's goroutine owns it.
type Complaint struct {
	text   string
	said   time.Time
	since  time.Time
	silent int
}

// Note takes the outcome of an attempt at now, and logs what is worth a line: failed, with the
// error and the number of attempts since the last line, or works once the failure is over.
func (c *Complaint) Note(log logr.Logger, now time.Time, err error, failed, works string) {
	switch {
	case err == nil && c.text == "":
	case err == nil:
		log.Info(works, "failedFor", now.Sub(c.since))
		*c = Complaint{}
	case err.Error() != c.text || now.Sub(c.said) >= reminder:
		if c.text == "" {
			c.since = now
		}
		log.Error(err, failed, "failedFor", now.Sub(c.since), "unreported", c.silent)
		c.text, c.said, c.silent = err.Error(), now, 0
	default:
		c.silent++
	}
}

// Kind returns what is the same in the texts of one failure that repeats: the error without its digits, since each attempt
// has a port, a time or a version of its own.
func Kind(err error) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
}
