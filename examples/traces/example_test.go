package traces_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// Example traces one pod until it is ready and shows what its start was made of. A program would
// use an exporter such as otlptrace in place of the recorder.
func Example() {
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	root, err := os.MkdirTemp("", "traces")
	check(err)
	defer os.RemoveAll(root)
	rt, pods := fake.New(fake.Options{}), source.NewChannel(source.ChannelOptions{NodeName: "n1"})
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "n1"},
		Observe: podwright.Observe{TracerProvider: provider},
	})
	check(err)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	check(pods.Set(ctx, []*v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "web:1"}}},
	}}))
	for change, err := range engine.Watch(ctx) {
		check(err)
		if change.Status.Phase == v1.PodRunning {
			break
		}
	}
	cancel()
	check(<-ended)
	check(provider.Shutdown(context.Background()))

	start := named(recorder.Ended(), "pod start")
	attributes := attribute.NewSet(start.Attributes()...)
	outcome, _ := attributes.Value("podwright.outcome")
	fmt.Println(start.Name()+":", outcome.AsString())
	below := map[string]bool{}
	for _, s := range recorder.Ended() {
		if s.SpanContext().TraceID() == start.SpanContext().TraceID() && s.SpanKind() == trace.SpanKindClient {
			below[s.Name()] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(below)) {
		fmt.Println("  " + name)
	}
	// Output:
	// pod start: Ready
	//   runtime.v1.ImageService/ImageStatus
	//   runtime.v1.ImageService/PullImage
	//   runtime.v1.RuntimeService/CreateContainer
	//   runtime.v1.RuntimeService/PodSandboxStatus
	//   runtime.v1.RuntimeService/RunPodSandbox
	//   runtime.v1.RuntimeService/StartContainer
}

// named returns the first span of a name.
func named(spans []sdk.ReadOnlySpan, name string) sdk.ReadOnlySpan {
	i := slices.IndexFunc(spans, func(s sdk.ReadOnlySpan) bool { return s.Name() == name })
	return spans[i]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
