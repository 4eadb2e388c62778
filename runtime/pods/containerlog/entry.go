package containerlog

import (
	"bytes"
	"time"
)

// maxHeader is more than the longest header of an entry, in bytes.
const maxHeader = 128

// header is what an entry says before its text.
type header struct {
	at     time.Time
	stream int // index of the stream
	// whole: the text ends a line; otherwise the next entry of the stream continues it.
	whole bool
}

// streamNames are the names by index.
var streamNames = [2]string{Stdout, Stderr}

// parse splits a raw line of a log, or its first part, into header and text
// (spec/runtime.md 18.3). ok is false for what is not an entry.
func parse(raw []byte) (h header, text []byte, ok bool) {
	stamp, rest, ok := bytes.Cut(raw, []byte{' '})
	if !ok || len(stamp) > maxHeader {
		return h, nil, false
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return h, nil, false
	}
	switch string(stream) {
	case Stdout:
	case Stderr:
		h.stream = 1
	default:
		return h, nil, false
	}
	tags, text, _ := bytes.Cut(rest, []byte{' '})
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	switch string(tag) {
	case "F":
		h.whole = true
	case "P":
	default:
		return h, nil, false
	}
	var err error
	h.at, err = time.Parse(time.RFC3339Nano, string(stamp))
	return h, text, err == nil
}
