package syncloop

import (
	"bytes"

	v1 "k8s.io/api/core/v1"
)

// fingerprint is the wire form of a pod's spec and status. Equal fingerprints mean
// equal contents, so that of a full set only what changed is compared field by
// field, which costs twenty times as much. The reverse does not hold: contents with
// the same meaning may be written differently.
type fingerprint struct {
	spec, status []byte
}

// take makes f the fingerprint of pod, in the memory f has. It reports false if
// the pod has none.
func (f *fingerprint) take(pod *v1.Pod) bool {
	var specOK, statusOK bool
	f.spec, specOK = encode(f.spec, &pod.Spec)
	f.status, statusOK = encode(f.status, &pod.Status)
	return specOK && statusOK
}

// equal reports whether both stand for the same content. The empty fingerprint
// stands for nothing.
func (f *fingerprint) equal(g fingerprint) bool {
	return len(f.spec) > 0 && bytes.Equal(f.spec, g.spec) && bytes.Equal(f.status, g.status)
}

// wire is what the generated types of the Kubernetes API can do.
type wire interface {
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
}

func encode(buffer []byte, m wire) ([]byte, bool) {
	size := m.Size()
	if cap(buffer) < size {
		buffer = make([]byte, size)
	}
	buffer = buffer[:size]
	_, err := m.MarshalToSizedBuffer(buffer)
	return buffer, err == nil
}
