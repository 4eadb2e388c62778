package runtimetest

import (
	"context"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

func runtimeCases() []namedCase {
	return []namedCase{
		{"version names the runtime", versionCase},
		{"runtime and network are ready", conditionsCase},
		{"a cancelled context fails calls", cancelledCase},
	}
}

func versionCase(e *env) {
	v, err := e.Runtime.Version(e.ctx, cri.APIVersion)
	e.must(err)
	if v.GetRuntimeName() == "" || v.GetRuntimeVersion() == "" || v.GetRuntimeApiVersion() == "" {
		e.Errorf("version %v, want a name, a version and an API version", v)
	}
}

func conditionsCase(e *env) {
	response, err := e.Runtime.Status(e.ctx, false)
	e.must(err)
	got := map[string]bool{}
	for _, c := range response.GetStatus().GetConditions() {
		got[c.GetType()] = c.GetStatus()
	}
	for _, name := range []string{"RuntimeReady", "NetworkReady"} {
		if ready, ok := got[name]; !ok || !ready {
			e.Errorf("condition %s: present %v, true %v; want both", name, ok, ready)
		}
	}
}

// cancelledCase: a context that has already ended yields an error of that class.
func cancelledCase(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	check := func(what string, err error) {
		if class := cri.Class(err); class != runtime.ErrCanceled {
			e.Errorf("%s with a cancelled context: error %v of class %v, want %v", what, err, class, runtime.ErrCanceled)
		}
	}
	_, err := e.Runtime.ListContainers(ctx, nil)
	check("ListContainers", err)
	_, err = e.Runtime.ListPodSandbox(ctx, nil)
	check("ListPodSandbox", err)
	config := e.sandboxConfig()
	id, err := e.Runtime.RunPodSandbox(ctx, config, e.RuntimeHandler)
	if err == nil {
		e.removeLater(id)
	}
	check("RunPodSandbox", err)
}
