package checkpointtest

import (
	"crypto/sha256"
	"testing"

	"github.com/podwright/podwright/status/checkpoint"
)

// Key returns a key for records: the same one each time for a number, and another one for
// each number.
func Key(t testing.TB, n byte) checkpoint.Key {
	t.Helper()
	secret := sha256.Sum256([]byte{n})
	k, err := checkpoint.NewKey(secret[:])
	if err != nil {
		t.Fatal(err)
	}
	return k
}
