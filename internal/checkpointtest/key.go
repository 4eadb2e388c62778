package checkpointtest

import (
	"crypto/sha256"
	"testing"

	"github.com/podwright/podwright/status/checkpoint"
)

// Key returns a key for records: always the same for a given number, and a different one for every
// other number.
func Key(t testing.TB, n byte) checkpoint.Key {
	t.Helper()
	secret := sha256.Sum256([]byte{n})
	k, err := checkpoint.NewKey(secret[:])
	if err != nil {
		t.Fatal(err)
	}
	return k
}
