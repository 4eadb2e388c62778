package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// isJournal reports whether w is systemd's journal; stream is the value of JOURNAL_STREAM.
func isJournal(w io.Writer, stream string) bool {
	f, ok := w.(*os.File)
	if !ok || stream == "" {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && fmt.Sprintf("%d:%d", stat.Dev, stat.Ino) == stream
}

// journalHandler writes lines for the journal, which adds the time, and reads a priority at the
// beginning of a line (sd-daemon(3)).
type journalHandler struct {
	slog.Handler // writes to line
	line         *bytes.Buffer
	mu           *sync.Mutex
	out          io.Writer
}

func newJournalHandler(out io.Writer, level slog.Level) slog.Handler {
	line := &bytes.Buffer{}
	text := slog.NewTextHandler(line, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}})
	return journalHandler{text, line, &sync.Mutex{}, out}
}

// Handle implements [slog.Handler].
func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line.Reset()
	h.line.WriteString(priority(r.Level))
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	_, err := h.out.Write(h.line.Bytes())
	return err
}

// WithAttrs implements [slog.Handler].
func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return journalHandler{h.Handler.WithAttrs(attrs), h.line, h.mu, h.out}
}

// WithGroup implements [slog.Handler].
func (h journalHandler) WithGroup(name string) slog.Handler {
	return journalHandler{h.Handler.WithGroup(name), h.line, h.mu, h.out}
}

func priority(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "<3>"
	case level >= slog.LevelWarn:
		return "<4>"
	case level >= slog.LevelInfo:
		return "<6>"
	}
	return "<7>"
}
