package source

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestHugeQuantitiesAreRefusedUnread: D10. Parsing any of the bad ones would take forever.
func TestHugeQuantitiesAreRefusedUnread(t *testing.T) {
	d, err := newDecoder("node", true)
	must(t, err)
	pod := func(rest string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n" + rest
	}
	container := func(rest string) string {
		return pod("  containers:\n  - {name: main, image: i, " + rest + "}\n")
	}
	for _, bad := range []string{"1e-999999999", "1E-999999999", `1\x65-999999999`, "1e999999999", "1e-1001", "1e+1001", "1e-99999999999999999999", "0." + strings.Repeat("0", 1000) + "1"} {
		for where, manifest := range map[string]string{
			"spec.containers[0].resources.limits[cpu]":           container(`resources: {limits: {cpu: "` + bad + `"}}`),
			"spec.containers[0].resources.requests[memory]":      container(`resources: {requests: {memory: "` + bad + `"}}`),
			"spec.containers[0].env[0].valueFrom":                container(`env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "` + bad + `"}}}]`),
			"spec.overhead[cpu]":                                 pod(`  overhead: {cpu: "` + bad + `"}`),
			"spec.volumes[0].emptyDir.sizeLimit":                 pod(`  volumes: [{name: v, emptyDir: {sizeLimit: "` + bad + `"}}]`),
			"spec.resources.requests[cpu]":                       pod(`  resources: {requests: {cpu: "` + bad + `"}}`),
			"spec.volumes[0].ephemeral.volumeClaimTemplate.spec": pod(`  volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: "` + bad + `"}}}}}}]`),
			"status.containerStatuses[0].resources.limits[cpu]":  pod("  containers: []\nstatus: {containerStatuses: [{resources: {limits: {cpu: \"" + bad + `"}}}]}`),
		} {
			got, err := d.decode([]byte(manifest), "file:/x")
			if got != nil || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), where) || strings.Contains(err.Error(), bad) {
				t.Errorf("%s: %.20s: %v, %v", where, bad, got, err)
			}
		}
	}
	for _, good := range []string{"1e3", "1E3", "5E", "1Ei", "1e-3", "100m", "1e0000000003", "1e18"} {
		if _, err := d.decode([]byte(container(`resources: {limits: {example.com/x: "`+good+`"}}`)), "file:/x"); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	// A field that the API does not have is not decoded; its name must not cause it to be parsed.
	unknown := container(`imagePullPolicy: 7, unknown: {limits: {cpu: "1e-999999999"}}`)
	if got, err := d.decode([]byte(unknown), "file:/x"); got != nil || !errors.Is(err, ErrMalformed) {
		t.Errorf("a huge quantity of an unknown field: %v, %v", got, err)
	}
	// Text that is not a quantity may look like one.
	if _, err := d.decode([]byte(container(`env: [{name: limits, value: "1e-999999999"}]`)), "file:/x"); err != nil {
		t.Error(err)
	}
}

// TestOtherKindsAreNotDecoded: D10. A manifest of another kind is not decoded, because that
// might take forever.
func TestOtherKindsAreNotDecoded(t *testing.T) {
	const huge = `"1e-999999999"`
	d, err := newDecoder("node", true)
	must(t, err)
	for kind, rest := range map[string]string{
		"Node":          "status: {capacity: {cpu: " + huge + "}}",
		"ResourceQuota": "spec: {hard: {cpu: " + huge + "}}",
		"PodTemplate":   "template: {spec: {overhead: {cpu: " + huge + "}}}",
	} {
		manifest := []byte("apiVersion: v1\nkind: " + kind + "\nmetadata: {name: x}\n" + rest + "\n")
		if _, err := d.decode(manifest, "file:/x"); !errors.Is(err, ErrOtherKind) {
			t.Errorf("%s: %v", kind, err)
		}
		o, err := newObjectDecoder()
		must(t, err)
		if _, _, err := o.decode(manifest); !errors.Is(err, errNoObject) {
			t.Errorf("%s as an object: %v", kind, err)
		}
	}
}

// TestHugeQuantitiesOfGoValuesAreInvalid: D10. Adding 1 to any of the bad ones would take forever.
func TestHugeQuantitiesOfGoValuesAreInvalid(t *testing.T) {
	huge, big := resource.MustParse("1e999999999"), resource.MustParse("100E")
	for where, edit := range map[string]func(*v1.Pod, resource.Quantity){
		"spec.containers[0].resources.limits[cpu]": func(p *v1.Pod, q resource.Quantity) {
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"cpu": q}
		},
		"spec.overhead[cpu]": func(p *v1.Pod, q resource.Quantity) { p.Spec.Overhead = v1.ResourceList{"cpu": q} },
		"spec.volumes[0].emptyDir.sizeLimit": func(p *v1.Pod, q resource.Quantity) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &q}}}}
		},
	} {
		p := valid(func(p *v1.Pod) { edit(p, huge) })
		Default(p)
		if problems := Validate(p); len(problems) == 0 || problems[0].Field != where || !strings.Contains(problems[0].Detail, "out of range") {
			t.Errorf("%s: %v", where, problems)
		}
		p = valid(func(p *v1.Pod) { edit(p, big) })
		Default(p)
		if problems := Validate(p); len(problems) > 0 {
			t.Errorf("%s: %v", where, problems)
		}
	}
}
