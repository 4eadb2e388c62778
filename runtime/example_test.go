package runtime_test

import (
	"fmt"

	"github.com/podwright/podwright/runtime"
)

// A PodStatus says what runs of a pod, whatever runtime shows it.
func ExamplePodStatus() {
	id, err := runtime.ParseContainerID("containerd://4f2a")
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &runtime.PodStatus{UID: "7d1f", Containers: []*runtime.ContainerStatus{
		{ID: id, Name: "web", State: runtime.Running, RestartCount: 1},
		{ID: runtime.ContainerID{Runtime: "containerd", ID: "19c0"}, Name: "web", State: runtime.Exited, ExitCode: 1},
	}}
	web := pod.Container("web")
	fmt.Println(web.State, web.ID, "restarts:", web.RestartCount)
	fmt.Println("containers run:", pod.ContainersRunning())
	// Output:
	// running containerd://4f2a restarts: 1
	// containers run: true
}
