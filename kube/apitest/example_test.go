package apitest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podwright/podwright/kube/apitest"
)

// A test calls Start. A program calls New, and Close at its end; here there are no
// programs to run, which the error says.
func Example() {
	_ = os.Setenv("PODWRIGHT_KUBERNETES", "/nonexistent")
	defer func() { _ = os.Unsetenv("PODWRIGHT_KUBERNETES") }()
	dir := filepath.Join(os.TempDir(), "podwright-apitest-example")
	defer func() { _ = os.RemoveAll(dir) }()
	cluster, err := apitest.New(context.Background(), apitest.Options{Dir: dir, Controllers: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = cluster.Close() }()
	out, err := cluster.Kubectl(context.Background(), "get", "namespaces")
	fmt.Println(out, err)
	// Output: start etcd: fork/exec /nonexistent/etcd: no such file or directory
	// start kube-apiserver: fork/exec /nonexistent/kube-apiserver: no such file or directory
}
