package main

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostile is text that could move the cursor, start an escape sequence or reorder a line.
const hostile = "a\x1b[2J\u009b2Jb\u202ec\u2066d\u200fe\u061cf\u2028g\x7fh\x00i\xffj"

func TestPrintable(t *testing.T) {
	if got, want := printable(hostile+"\n\té世👩‍💻"), "a [2J 2Jb c d e f g h i\uFFFDj  é世👩‍💻"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := printableLines("a\x1b\nb\r\n"), "a \nb \n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, text string) {
		got := printable(text)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("%q became %q", text, got)
		}
		if utf8.RuneCountInString(got) != utf8.RuneCountInString(text) {
			t.Errorf("%q became %q: columns move", text, got)
		}
	})
}

// TestTableIsPrintable: a pod's row is one line of known columns, whatever its names and reasons are.
func TestTableIsPrintable(t *testing.T) {
	pod := v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: hostile, Name: "x\ny\tz" + hostile},
		Status:     v1.PodStatus{Phase: v1.PodFailed, Reason: hostile + "\n"},
	}
	lines := table([]v1.Pod{pod}, time.Now())
	if len(lines) != 2 || strings.Join(lines, "\n") != printableLines(strings.Join(lines, "\n")) {
		t.Errorf("%q", lines)
	}
}
