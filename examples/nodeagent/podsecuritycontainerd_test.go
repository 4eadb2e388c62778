//go:build containerd

package main

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestContainerdPodSecurity: PS1. With --pod-security restricted a pod that gives up what the level
// asks for runs, without capabilities, as the user it names; one that does not is Failed, with an
// event that names the fields, and is not run by the next agent either.
func TestContainerdPodSecurity(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	args = append(args, "--pod-security", "restricted")
	writeManifest(t, manifests, "good.yaml", pod("good", runtime.Image, "sleep 100000",
		"    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}",
		"    readinessProbe: {exec: {command: [sh, -c, 'test $(id -u) = 1000 && grep -q ^CapBnd:.0*$ /proc/self/status && grep -q ^NoNewPrivs:.1$ /proc/self/status']}, timeoutSeconds: 30, periodSeconds: 1}",
		"  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}",
		"  terminationGracePeriodSeconds: 1"))
	writeManifest(t, manifests, "bad.yaml", pod("bad", runtime.Image, "sleep 100000", "  terminationGracePeriodSeconds: 1"))
	for _, then := range [][]string{nil, {"--drain"}} {
		a := startAgent(t, append(args, then...)...)
		a.awaitPhase("good", v1.PodRunning)
		await(t, "good to be ready", func() error {
			for _, c := range a.awaitPhase("good", v1.PodRunning).Status.ContainerStatuses {
				if c.Ready && c.RestartCount == 0 {
					return nil
				}
			}
			return errors.New("not ready")
		})
		bad := a.awaitPhase("bad", v1.PodFailed)
		if bad.Status.Reason != "PodSecurity" || len(bad.Status.ContainerStatuses) > 0 || !strings.Contains(bad.Status.Message, `violates PodSecurity "restricted"`) {
			t.Errorf("%s: %s, containers %v", bad.Status.Reason, bad.Status.Message, bad.Status.ContainerStatuses)
		}
		if told := strings.Contains(a.log(), `violates PodSecurity \"restricted\"`) && strings.Contains(a.log(), "allowPrivilegeEscalation"); told != (then == nil) {
			t.Errorf("an event with the fields: %t; it comes once\n%s", told, a.log())
		}
		a.terminate()
	}
}
