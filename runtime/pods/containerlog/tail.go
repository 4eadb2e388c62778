package containerlog

import (
	"bytes"
	"errors"
	"io"
)

const tailBlock = 64 << 10

// LastLines returns the last lines of a log whose end is given, as a [Reader] shows them. A first entry that is cut
// off is left out.
func LastLines(end []byte, lines int64) []byte {
	c := counter{want: lines, stream: none}
	start, _, _ := c.tailStart(bytes.NewReader(end), int64(len(end))) // which cannot fail
	var out bytes.Buffer
	j := newJoiner(&out, &Options{})
	for raw := range bytes.Lines(end[start:]) {
		if h, text, ok := parse(bytes.TrimSuffix(raw, []byte{'\n'})); ok {
			_ = j.add(h.stream, h.at, text, h.whole)
		}
	}
	_ = j.flush()
	return out.Bytes()
}

// counter counts lines from the end of a log towards its start.
type counter struct {
	// want is how many lines are wanted.
	want int64
	// stream is the only one that counts, or none.
	stream int
	found  int64
	seen   bool // an entry of the stream was seen
}

// past takes the next older entry and reports whether it ends a line that is too old to be
// wanted. What the log ends with counts as a line even if the line is unfinished.
func (c *counter) past(raw []byte) bool {
	h, _, ok := parse(raw)
	if !ok || c.stream != none && h.stream != c.stream {
		return false
	}
	if h.whole || !c.seen {
		c.found++
	}
	c.seen = true
	return c.found > c.want
}

// tailStart returns where in the first size bytes of r the wanted lines begin, and
// whether they begin there at all: if not, start is 0.
func (c *counter) tailStart(r io.ReaderAt, size int64) (start int64, done bool, err error) {
	buffer := make([]byte, tailBlock+maxHeader)
	start = size // of the entry looked at last
	for end := size; end > 0; {
		from := max(0, end-tailBlock)
		// The header of an entry that begins in the block may end after it.
		n, err := r.ReadAt(buffer[:min(end+maxHeader, size)-from], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, false, err
		}
		block := buffer[:n]
		for i := min(int(end-from), n); i > 0; {
			i = bytes.LastIndexByte(block[:i], '\n')
			if i < 0 {
				break
			}
			if at := from + int64(i) + 1; at < size {
				if c.past(head(block[i+1:])) {
					return start, true, nil
				}
				start = at
			}
		}
		end = from
		if from == 0 {
			if c.past(head(block)) {
				return start, true, nil
			}
		}
	}
	return 0, false, nil
}

// head returns the first bytes of an entry, at most up to its end.
func head(raw []byte) []byte {
	raw = raw[:min(len(raw), maxHeader)]
	if i := bytes.IndexByte(raw, '\n'); i >= 0 {
		return raw[:i]
	}
	return raw
}

// tailSkip returns how many line ends come before the wanted lines in a file that can only be
// read forward, and whether the wanted lines begin in it.
func (c *counter) tailSkip(s *segment) (skip int64, done bool, err error) {
	var ends int64
	last := true // the last entry of the stream ends a line
	err = s.read(unlimited, func(raw []byte, first, _ bool) error {
		if !first {
			return nil
		}
		if h, _, ok := parse(raw); ok && (c.stream == none || h.stream == c.stream) {
			if last = h.whole; last {
				ends++
			}
		}
		return nil
	})
	if !last && !c.seen {
		c.found++
	}
	c.seen = c.seen || ends > 0 || !last
	c.found += ends
	return max(0, c.found-c.want), c.found > c.want, err
}
