package containerlog

import (
	"bufio"
	"errors"
	"io"
	"time"
)

const (
	// maxHeld is how much of an unfinished line of a stream is held back to keep the line in
	// one piece.
	maxHeld = 128 << 10
	// timeFormat is that of the CRI, of fixed width.
	timeFormat = "2006-01-02T15:04:05.000000000Z07:00"
)

// errLimit ends a log whose limit of bytes is reached.
var errLimit = errors.New("byte limit reached")

// none: no line is open at the client.
const none = -1

// joiner puts the parts of lines together and writes them. A line that is too long to be held is
// written in pieces; if a line of the other stream comes before its end, the rest becomes a line
// of its own.
type joiner struct {
	out        *bufio.Writer
	timestamps bool
	held       [2]line
	open       int // the stream whose line the client has without its end, or none
}

// line is an unfinished line.
type line struct {
	at   time.Time
	text []byte
	// begun: at is set.
	begun bool
}

func newJoiner(w io.Writer, options *Options) *joiner {
	if options.LimitBytes != nil {
		w = &limited{w: w, left: *options.LimitBytes}
	}
	return &joiner{out: bufio.NewWriterSize(w, 32<<10), timestamps: options.Timestamps, open: none}
}

// add takes text of a stream; end says that a line ends with it.
func (j *joiner) add(stream int, at time.Time, text []byte, end bool) error {
	l := &j.held[stream]
	// What continues a line that the client has a part of may become a line of its own: see write.
	if !l.begun || j.open == stream && len(l.text) == 0 {
		l.at, l.begun = at, true
	}
	l.text = append(l.text, text...)
	if !end {
		if len(l.text) < maxHeld {
			return nil
		}
		return j.write(stream)
	}
	if err := j.write(stream); err != nil {
		return err
	}
	j.open, l.begun = none, false
	if cap(l.text) > maxHeld/4 {
		l.text = nil
	}
	return j.out.WriteByte('\n')
}

// write writes what is held of a stream's line.
func (j *joiner) write(stream int) error {
	l := &j.held[stream]
	if j.open != stream {
		if j.open != none {
			rest := &j.held[j.open]
			rest.begun = len(rest.text) > 0
			if err := j.out.WriteByte('\n'); err != nil {
				return err
			}
		}
		j.open = stream
		if j.timestamps {
			if _, err := j.out.WriteString(l.at.Format(timeFormat) + " "); err != nil {
				return err
			}
		}
	}
	_, err := j.out.Write(l.text)
	l.text = l.text[:0]
	return err
}

// flush gives the client everything, including unfinished lines.
func (j *joiner) flush() error {
	for stream := range j.held {
		if l := &j.held[stream]; l.begun && len(l.text) > 0 {
			if err := j.write(stream); err != nil {
				return err
			}
		}
	}
	return j.out.Flush()
}

// limited ends the output after left bytes.
type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) < l.left {
		n, err := l.w.Write(p)
		l.left -= int64(n)
		return n, err
	}
	n, err := l.w.Write(p[:l.left])
	l.left -= int64(n)
	if err == nil {
		err = errLimit
	}
	return n, err
}
