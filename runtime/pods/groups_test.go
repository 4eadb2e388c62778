package pods_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// TestStrictGroupsNeedARuntimeThatHonoursThem: spec/runtime.md 3.5. A runtime that was replaced since the pod's admission starts
// nothing of a pod whose demand it would ignore: no sandbox, and no container in a sandbox that exists.
func TestStrictGroupsNeedARuntimeThatHonoursThem(t *testing.T) {
	answer := func(able bool) *runtimeapi.StatusResponse {
		return &runtimeapi.StatusResponse{Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: able}}
	}
	for name, test := range map[string]struct {
		policy *v1.SupplementalGroupsPolicy
		status *runtimeapi.StatusResponse
		err    error
		want   string // a part of the event; empty: it starts
	}{
		"able":               {ptr.To(v1.SupplementalGroupsPolicyStrict), answer(true), nil, ""},
		"not able":           {ptr.To(v1.SupplementalGroupsPolicyStrict), answer(false), nil, "Strict: the runtime does not support it"},
		"an old runtime":     {ptr.To(v1.SupplementalGroupsPolicyStrict), &runtimeapi.StatusResponse{}, nil, "Strict: the runtime does not support it"},
		"the runtime is off": {ptr.To(v1.SupplementalGroupsPolicyStrict), nil, errors.New("connection refused"), "connection refused"},
		"merge":              {ptr.To(v1.SupplementalGroupsPolicyMerge), answer(false), nil, ""},
		"none":               {nil, answer(false), nil, ""},
	} {
		for _, existing := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", new", true: ", its container ended"}[existing], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, func(fake.Launch) fake.Script { return fake.Script{Exit: &fake.Exit{After: second}} })
					pod := newPod(func(p *v1.Pod) {
						p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: test.policy}
					})
					if existing {
						w.withStatus(answer(true), nil)
						w.syncAll(pod)
						pass(2 * second)
					}
					w.withStatus(test.status, test.err)
					before := w.fake.CallCount(fake.RunPodSandbox) + w.fake.CallCount(fake.CreateContainer)
					r := w.sync(pod)
					made := w.fake.CallCount(fake.RunPodSandbox)+w.fake.CallCount(fake.CreateContainer) > before
					if started := test.want == ""; made != started || (r.Err == nil) != started || !strings.Contains(strings.Join(w.events.list(), "\n"), test.want) {
						t.Errorf("something was made: %t, err %v, events %q", made, r.Err, w.events.list())
					}
				})
			})
		}
	}
}
