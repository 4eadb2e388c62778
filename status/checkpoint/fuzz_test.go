package checkpoint

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

// FuzzRecord reads files that something else wrote. A file is read in full or refused
// (9.2), the error quotes nothing of it, and what was read is written and read again
// unchanged.
func FuzzRecord(f *testing.F) {
	for _, body := range []string{
		`{"uid":"a","pod":{"metadata":{"name":"web","uid":"a"}},"status":{"phase":"Running"}}`,
		`{"uid":"../x","containers":[{"name":"c","attempt":-1}],"acks":[{"sink":"api","version":18446744073709551615}]}`,
		`{"uid":"a","writtenAt":"9999-12-31T23:59:59.999999999Z","termination":{"gracePeriodSeconds":-9}}`,
		`{"uid":"","namespace":"x"}`,
		`null`,
		`{"uid":"a","status":{"containerStatuses":[{"state":{"terminated":{"exitCode":1,"finishedAt":null}}}]}}`,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(magic+" 1 "+body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, sealed bool) {
		data := body
		if sealed { // with the right checksum, which a random file hardly has
			data = FileOfVersion(plainVersion, body)
		}
		named := &Record{}
		if _, content, err := unframe(data); err == nil {
			_ = json.Unmarshal(content, named) // for the name alone
		}
		name := fileName(named.UID)
		r, _, err := seals{}.decode(name, data)
		if err != nil {
			if r != nil || len(err.Error()) > 60 {
				t.Fatalf("record %v, err %q", r, err)
			}
			return
		}
		if r.UID == "" {
			t.Fatal("a record without a UID")
		}
		dropUnknown(r)
		if r.Status != nil {
			protect(r, r.Status.DeepCopy())
		}
		written, err := seals{}.encode(r)
		if err != nil {
			if len(body) < maxSize/8 {
				t.Errorf("a record of %d bytes is not written: %v", len(body), err)
			}
			return
		}
		if len(written) > maxSize {
			t.Errorf("%d bytes, more than %d (9.11)", len(written), maxSize)
		}
		again, _, err := seals{}.decode(name, written)
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if before, after := asJSON(t, r), asJSON(t, again); len(written) < maxSize/2 && !bytes.Equal(before, after) {
			t.Errorf("read as\n%s\nthen as\n%s", before, after)
		}
	})
}

func asJSON(t *testing.T, r *Record) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// FuzzFileName: no UID makes a file outside the folder, nor takes another one's place (9.2).
func FuzzFileName(f *testing.F) {
	f.Add("a-b", "../a-b")
	f.Add("%", "..")
	f.Add("\x00", "/")
	f.Fuzz(func(t *testing.T, one, two string) {
		name := fileName(types.UID(one))
		if name == "" || name[0] == '.' || len(name) > 255 || !utf8.ValidString(name) || bytes.ContainsAny([]byte(name), "/\x00") {
			t.Errorf("%q is in file %q", one, name)
		}
		if one != two && name == fileName(types.UID(two)) {
			t.Errorf("%q and %q are both in %q", one, two, name)
		}
		if uid, ok := recordName(name); one != "" && (!ok || uid != "" && uid != types.UID(one)) {
			t.Errorf("file %q of %q is read as %q, %v", name, one, uid, ok)
		}
	})
}

// FuzzSealedRecord: only what a key sealed for this very file can be read with it; everything else
// is refused with an error that quotes nothing of it, and nothing plain is trusted (CK12).
func FuzzSealedRecord(f *testing.F) {
	k, err := NewKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		f.Fatal(err)
	}
	s := seals{keys: []Key{k}}
	whole, err := s.encode(&Record{UID: "a", Name: "web"})
	if err != nil {
		f.Fatal(err)
	}
	header, body, _ := bytes.Cut(whole, []byte("\n"))
	f.Add("a", body)
	f.Add("b", body)
	f.Add("a", body[:len(body)-1])
	f.Add("a", []byte(k.ID()+"\n"))
	f.Add("a", []byte(`{"uid":"a"}`))
	f.Fuzz(func(t *testing.T, name string, changed []byte) {
		for _, data := range [][]byte{
			FileOfVersion(plainVersion, changed),
			FileOfVersion(sealedVersion, changed),
			append(append(bytes.Clone(header), '\n'), changed...), // with a wrong checksum
		} {
			r, _, err := s.decode(name, data)
			if err == nil && (name != "a" || r.UID != "a" || r.Name != "web") {
				t.Errorf("%q is read from %q", r.UID, name)
			}
			if err != nil && (r != nil || len(err.Error()) > 200) {
				t.Errorf("record %v beside the error %v", r, err)
			}
		}
	})
}
