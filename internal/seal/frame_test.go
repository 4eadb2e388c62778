package seal_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/podwright/podwright/internal/seal"
)

// TestFrameIsThatOfEarlierFiles: files on disks have this header, byte for byte.
func TestFrameIsThatOfEarlierFiles(t *testing.T) {
	const want = "podwright-offline 1 daa6a7900618451e6c85175bcbacaace8f3ff45a03d0ab644b47cfabd73a0709\n" +
		`{"entry":{"kind":"Secret","namespace":"ns","name":"s0"},"value":"canary"}`
	body := []byte(want[len(want)-73:])
	if got := seal.Frame("podwright-offline", 1, body); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	if version, got, err := seal.Unframe("podwright-offline", []byte(want)); version != 1 || string(got) != string(body) || err != nil {
		t.Errorf("version %d, %q, %v", version, got, err)
	}
}

// TestUnframeTellsWhatIsWrong: every changed bit and every cut is an error, and a body may be anything.
func TestUnframeTellsWhatIsWrong(t *testing.T) {
	for _, body := range []string{"", "\n", "one\ntwo 3\n"} {
		data := seal.Frame("magic", 12, []byte(body))
		if version, got, err := seal.Unframe("magic", data); version != 12 || string(got) != body || err != nil {
			t.Errorf("%q: version %d, %q, %v", data, version, got, err)
		}
		for i := range data {
			if _, _, err := seal.Unframe("magic", data[:i]); err == nil {
				t.Errorf("cut to %q: no error", data[:i])
			}
			for bit := range 8 {
				data[i] ^= 1 << bit
				if _, _, err := seal.Unframe("magic", data); err == nil {
					t.Errorf("%q: no error", data)
				}
				data[i] ^= 1 << bit
			}
		}
		if _, _, err := seal.Unframe("magic", append(data, 'x')); !errors.Is(err, seal.ErrChecksum) {
			t.Errorf("a longer body: %v", err)
		}
		if _, _, err := seal.Unframe("other", data); !errors.Is(err, seal.ErrHeader) {
			t.Errorf("another program's file: %v", err)
		}
	}
}

// TestOnlyWrittenVersionsCount: a word that Frame does not write for a version is version 0.
func TestOnlyWrittenVersionsCount(t *testing.T) {
	for word, want := range map[string]int{
		"1": 1, "3": 3, "0": 0, "-1": 0, "01": 0, "+1": 0, "x": 0, "": 0, "99999999999999999999": 0,
	} {
		title := "magic " + word
		data := fmt.Sprintf("%s %x\nbody", title, sha256.Sum256([]byte(title+"body")))
		if version, body, err := seal.Unframe("magic", []byte(data)); version != want || string(body) != "body" || err != nil {
			t.Errorf("%q: version %d, want %d, %q, %v", word, version, want, body, err)
		}
	}
}
