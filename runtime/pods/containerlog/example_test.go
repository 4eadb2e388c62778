package containerlog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// The last two lines that a container wrote to its standard output, over two files of its log.
func ExampleReader_Copy() {
	logs, err := os.MkdirTemp("", "logs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(logs)
	place := containerlog.Of("default", "web", "1234", "app", 0)
	folder := filepath.Join(logs, place.Pod, place.Container)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		fmt.Println(err)
		return
	}
	for name, text := range map[string]string{
		place.File + ".20260102-030405": "2026-01-02T03:04:04Z stdout F starting\n2026-01-02T03:04:05Z stdout F ready\n",
		place.File:                      "2026-01-02T03:04:06Z stderr F no config\n2026-01-02T03:04:07Z stdout F serving\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	lines := int64(2)
	reader := containerlog.New(logs, nil)
	for _, stream := range []string{containerlog.Stdout, containerlog.Stderr} {
		if err := reader.Copy(context.Background(), place, containerlog.Options{Tail: &lines, Stream: stream}, os.Stdout); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// ready
	// serving
	// no config
}
