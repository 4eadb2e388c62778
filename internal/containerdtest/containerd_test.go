//go:build containerd

package containerdtest

import (
	"testing"
)

func TestInstance(t *testing.T) {
	i := Start(t)
	t.Log(i.Ctr("images", "ls", "-q"))
	t.Log(i.Log())
}
