package userns

import "testing"

// FuzzMapping: a record is a range that some pool can have written, or it is refused; what
// is taken is written and read again unchanged.
func FuzzMapping(f *testing.F) {
	whole, err := Mapping{HostID: unit, Length: unit}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"uidMappings":[{"hostId":4294901760,"containerId":0,"length":65536}],"gidMappings":[{"hostId":4294901760,"containerId":0,"length":65536}]}`))
	f.Add([]byte(`{"uidMappings":[{"hostId":0,"length":4294967295}],"gidMappings":[]}`))
	f.Add([]byte(`{"uidMappings":[{"hostId":-1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := decode(text)
		if err != nil {
			return
		}
		if m.HostID < unit || m.Length == 0 || m.end() > 1<<32-1 {
			t.Fatalf("%s is taken as %+v", text, m)
		}
		written, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decode(written); err != nil || again != m {
			t.Errorf("%+v is read as %+v, %v", m, again, err)
		}
	})
}
