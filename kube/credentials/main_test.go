package credentials

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
)

// asAgent makes this test binary an agent that asks the plugins of a folder about an image, to be
// killed meanwhile.
const asAgent = "CREDENTIALS_AGENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asAgent); dir != "" {
		source, err := New(rig{dir: dir}.options())
		if err == nil {
			_, err = source.Credentials(context.Background(), &v1.Pod{}, "reg.io/app")
		}
		fmt.Println(err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
