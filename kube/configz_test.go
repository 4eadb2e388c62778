package kube

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/runtime/pods"
)

// decoded are settings as one reads them who expects a kubelet's; a field that a kubelet has not is an error.
func decoded(t *testing.T, s settings) (k kubelet.KubeletConfiguration) {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&k); err != nil {
		t.Fatalf("no settings of a kubelet: %v\n%s", err, data)
	}
	return k
}

// TestSettingsAreAKubelets (KH7): /configz shows what is in force, as fields of a KubeletConfiguration.
func TestSettingsAreAKubelets(t *testing.T) {
	c := newConfig(t)
	c.Node.ClusterDNS, c.Admission = []string{"10.96.0.10"}, podwright.Admission{MaxPods: 30, AllowedSysctls: []string{"net.core.*"}}
	c.Storage.LogRotation = pods.LogRotation{MaxSize: 1 << 20, MaxFiles: 3}
	c.ImageGC = &podwright.ImageGC{Policy: imagegc.Policy{HighPercent: 70, LowPercent: 60, MaxAge: time.Hour}}
	c.Eviction = &podwright.Eviction{Policy: eviction.Policy{Thresholds: []eviction.Threshold{
		{Signal: eviction.MemoryAvailable, Value: eviction.Value{Quantity: 200 << 20}},
		{Signal: eviction.NodeFsAvailable, Value: eviction.Value{Percent: 12.5}, Grace: time.Minute, MinReclaim: eviction.Value{Quantity: 1 << 30}},
	}}}
	c.Pods.SeccompDefault, c.Pods.MaxParallelImagePulls = true, 1
	o := Options{Node: node.Options{Port: 10250, Reserved: v1.ResourceList{"cpu": resource.MustParse("500m")}, Taints: []v1.Taint{{Key: "edge", Effect: v1.TaintEffectNoSchedule}}}}
	o.Certificates.Rotate = true
	k := decoded(t, settingsOf(&o, &c))
	for _, field := range []struct {
		name      string
		want, got any
	}{
		{"port", int32(10250), k.Port},
		{"rotateCertificates", true, k.RotateCertificates},
		{"anonymous", false, *k.Authentication.Anonymous.Enabled},
		{"authorization", kubelet.KubeletAuthorizationModeWebhook, k.Authorization.Mode},
		{"maxPods", int32(30), k.MaxPods},
		{"clusterDNS", []string{"10.96.0.10"}, k.ClusterDNS},
		{"clusterDomain", "cluster.local", k.ClusterDomain},
		{"systemReserved", map[string]string{"cpu": "500m"}, k.SystemReserved},
		{"registerWithTaints", o.Node.Taints, k.RegisterWithTaints},
		{"log size", "1Mi", k.ContainerLogMaxSize},
		{"log files", int32(3), *k.ContainerLogMaxFiles},
		{"image GC", []int32{70, 60}, []int32{*k.ImageGCHighThresholdPercent, *k.ImageGCLowThresholdPercent}},
		{"image ages", []time.Duration{2 * time.Minute, time.Hour}, []time.Duration{k.ImageMinimumGCAge.Duration, k.ImageMaximumGCAge.Duration}},
		{"hard", map[string]string{"memory.available": "200Mi"}, k.EvictionHard},
		{"soft", map[string]string{"nodefs.available": "12.5%"}, k.EvictionSoft},
		{"grace", map[string]string{"nodefs.available": "1m0s"}, k.EvictionSoftGracePeriod},
		{"reclaim", map[string]string{"nodefs.available": "1Gi"}, k.EvictionMinimumReclaim},
		{"transition", 5 * time.Minute, k.EvictionPressureTransitionPeriod.Duration},
		{"seccompDefault", true, *k.SeccompDefault},
		{"serializeImagePulls", true, *k.SerializeImagePulls},
		{"crashLoopBackOff", 5 * time.Minute, k.CrashLoopBackOff.MaxContainerRestartPeriod.Duration},
		{"sysctls", []string{"net.core.*"}, k.AllowedUnsafeSysctls},
	} {
		if diff := cmp.Diff(field.want, field.got); diff != "" {
			t.Errorf("%s: %s", field.name, diff)
		}
	}
}

// TestSettingsByDefault (KH7): what was not set is shown as it is in force.
func TestSettingsByDefault(t *testing.T) {
	c := newConfig(t)
	k := decoded(t, settingsOf(&Options{}, &c))
	if k.MaxPods != 110 || k.ContainerLogMaxSize != "10Mi" || *k.ContainerLogMaxFiles != 5 || len(k.EvictionHard) != 0 || *k.SerializeImagePulls ||
		k.PodLogsDir != c.RootDir+"/logs" || k.NodeLeaseDurationSeconds != 40 || *k.CPUCFSQuota != true || k.ConfigMapAndSecretChangeDetectionStrategy != "Watch" {
		t.Errorf("%+v", k)
	}
	c.Eviction = &podwright.Eviction{}
	if k := decoded(t, settingsOf(&Options{}, &c)); k.EvictionHard["memory.available"] != "100Mi" || k.EvictionHard["imagefs.available"] != "15%" {
		t.Errorf("%v", k.EvictionHard)
	}
}

// TestSettingsHaveNoCredentials (KZ1): no field may hold a URL, a header or a file of credentials.
func TestSettingsHaveNoCredentials(t *testing.T) {
	for field := range reflect.TypeFor[settings]().Fields() {
		name := strings.ToLower(field.Tag.Get("json"))
		for _, bad := range []string{"url", "header", "keyfile", "token", "kubeconfig", "password"} {
			if strings.Contains(name, bad) {
				t.Errorf("%s may hold credentials", name)
			}
		}
	}
}
