package cri_test

import (
	"context"
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/cri"
)

// BenchmarkCall is one small call over a unix socket and back.
func BenchmarkCall(b *testing.B) {
	c := connect(b, &server{}, cri.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Version(b.Context(), cri.APIVersion); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkListContainers is what a relist of a node costs.
func BenchmarkListContainers(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		all := containers(n, 500)
		s := &server{
			unary: func(context.Context, string, any) (any, error) {
				return &runtimeapi.ListContainersResponse{Containers: all}, nil
			},
			streamContainers: func(stream containerStream) error {
				for from := 0; from < n; from += 100 {
					if err := stream.Send(&runtimeapi.StreamContainersResponse{Containers: all[from:min(from+100, n)]}); err != nil {
						return err
					}
				}
				return nil
			},
		}
		for name, unary := range map[string]bool{"plain": true, "streamed": false} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				c := connect(b, s, cri.Options{UnaryLists: unary})
				b.ReportAllocs()
				for b.Loop() {
					if got, err := c.ListContainers(b.Context(), nil); err != nil || len(got) != n {
						b.Fatal(len(got), err)
					}
				}
			})
		}
	}
}
