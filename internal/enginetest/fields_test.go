package enginetest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// onlyNode makes a pod ask for a node with a label.
func onlyNode(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

func requestsOf(name, amount string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		list := v1.ResourceList{v1.ResourceName(name): resource.MustParse(amount)}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	}
}

func strictGroups(p *v1.Pod) {
	p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr.To(v1.SupplementalGroupsPolicyStrict)}
}

// TestPodsNeverRunWithoutWhatTheyAskFor: FD2. If the node cannot provide what a pod asks for, the pod
// is refused with the kubelet's reason, and nothing of it is made. If the node has it, the pod runs.
func TestPodsNeverRunWithoutWhatTheyAskFor(t *testing.T) {
	labels := func(c *podwright.Config) { c.Node.Labels = map[string]string{"disk": "ssd"} }
	for name, test := range map[string]struct {
		configure func(*podwright.Config)
		features  *runtimeapi.RuntimeFeatures
		late      bool // the runtime is late to report its features
		edit      func(*v1.Pod)
		reason    string
		event     string
	}{
		"claim": {edit: func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("x")}}
		}, reason: "UnexpectedAdmissionError"},
		"device": {edit: requestsOf("nvidia.com/gpu", "1"), reason: "OutOfnvidia.com/gpu"},
		"device that there is": {configure: func(c *podwright.Config) {
			c.Node.Allocatable = v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}, edit: requestsOf("nvidia.com/gpu", "1")},
		"huge pages":                  {edit: requestsOf("hugepages-16Gi", "16Gi"), reason: "OutOfhugepages-16Gi"},
		"strict groups":               {edit: strictGroups, reason: "SupplementalGroupsPolicyNotSupported"},
		"strict groups, able runtime": {features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}, edit: strictGroups},
		"strict groups, runtime late": {features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}, late: true, edit: strictGroups},
		"os":                          {edit: func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }, reason: "PodOSNotSupported"},
		"node":                        {edit: func(p *v1.Pod) { p.Spec.NodeName = "n2" }, reason: "NodeName"},
		"label":                       {configure: labels, edit: onlyNode("disk", "hdd"), reason: "NodeAffinity"},
		"label that there is":         {configure: labels, edit: onlyNode("disk", "ssd")},
		"label, none configured":      {edit: onlyNode("disk", "ssd"), event: "NodeLabelsUnknown"},
		"host name":                   {edit: onlyNode(v1.LabelHostname, "n2"), reason: "NodeAffinity"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{Features: test.features})
				if test.late {
					rt.Inject(fake.Fault{Match: fake.Match{Method: fake.Status}, Effect: fake.Effect{Delay: 3 * time.Second}})
				}
				var configure []func(*podwright.Config)
				if test.configure != nil {
					configure = append(configure, test.configure)
				}
				r := newRig(t, rt, t.TempDir(), configure...).start()
				pod := newPod("asks")
				test.edit(pod)
				r.set(pod)
				if test.reason == "" {
					r.phase(pod.UID, v1.PodRunning, time.Minute)
					if test.event != "" && r.events.count("asks "+test.event) == 0 {
						t.Errorf("no event %s among %v", test.event, r.events.seen)
					}
					return
				}
				r.phase(pod.UID, v1.PodFailed, time.Minute)
				if st := r.pod(pod.UID).Status; st.Reason != test.reason || !strings.HasPrefix(st.Message, "Pod was rejected: ") || strings.Count(st.Message, "Pod was rejected") != 1 {
					t.Errorf("reason %q, message %q", st.Reason, st.Message)
				}
				if n := len(requests[*runtimeapi.RunPodSandboxRequest](rt, fake.RunPodSandbox, pod.UID)); n > 0 {
					t.Errorf("%d sandboxes were made", n)
				}
			})
		})
	}
}

// TestRefusedStaticPodRunsOnceItsCauseIsGone: AD5. At each start of the agent a static pod that was refused is judged again. It stays
// Failed, without another event, while the cause is there; once that is gone, it runs.
func TestRefusedStaticPodRunsOnceItsCauseIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, pod, able := t.TempDir(), newPod("asks"), &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}
		strictGroups(pod)
		for i, features := range []*runtimeapi.RuntimeFeatures{nil, nil, able, able} {
			rt := fake.New(fake.Options{Features: features})
			r := newRig(t, rt, root).start()
			r.set(pod)
			<-time.After(2 * time.Minute)
			want, starting, events := v1.PodFailed, 0, 0
			if features != nil {
				want, starting = v1.PodRunning, 1
			}
			if i == 0 {
				events = 1
			}
			p := r.pod(pod.UID)
			if p.Status.Phase != want || (p.Status.Reason == "") != (features != nil) || starts(rt, pod.UID) != starting {
				t.Errorf("run %d: phase %s, reason %q, %d starts", i, p.Status.Phase, p.Status.Reason, starts(rt, pod.UID))
			}
			if n := r.events.count("asks SupplementalGroupsPolicyNotSupported"); n != events {
				t.Errorf("run %d: %d events", i, n)
			}
			r.stop()
		}
	})
}

// TestUnknownLabelsAreToldOnce: FD2, IN6: a pod whose verdict is open for an hour has one event about its labels.
func TestUnknownLabelsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			c.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(admission.Request) admission.Verdict {
				if !well.Load() {
					panic("no policy")
				}
				return admission.Verdict{}
			})}
		}).start()
		pod := newPod("asks")
		onlyNode("disk", "ssd")(pod)
		r.set(pod)
		<-time.After(time.Hour)
		well.Store(true)
		r.phase(pod.UID, v1.PodRunning, 20*time.Minute)
		if n := r.events.count("asks NodeLabelsUnknown"); n != 1 {
			t.Errorf("%d events", n)
		}
	})
}

// volumeWith returns a pod that mounts a volume of this source.
func volumeWith(s v1.VolumeSource) *v1.Pod {
	pod := newPod("asks")
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: s}}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
	return pod
}

// podsWith returns pods that each set one field and, beyond that, nothing that matters.
func podsWith() map[string]*v1.Pod {
	user := ptr.To[int64](7)
	spec := func(edit func(*v1.PodSpec)) *v1.Pod {
		pod := newPod("asks")
		edit(&pod.Spec)
		return pod
	}
	projected := func(p v1.VolumeProjection) *v1.Pod {
		return volumeWith(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{p}}})
	}
	return map[string]*v1.Pod{
		"PodSpec.serviceAccountName":  spec(func(s *v1.PodSpec) { s.ServiceAccountName = "x" }),
		"PodSpec.serviceAccount":      spec(func(s *v1.PodSpec) { s.DeprecatedServiceAccount = "x" }),
		"PodSpec.schedulingGates":     spec(func(s *v1.PodSpec) { s.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}} }),
		"PodSpec.resourceClaims":      spec(func(s *v1.PodSpec) { s.ResourceClaims = []v1.PodResourceClaim{{Name: "x"}} }),
		"ResourceRequirements.claims": spec(func(s *v1.PodSpec) { s.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "x"}} }),
		"LifecycleHandler.tcpSocket": spec(func(s *v1.PodSpec) {
			s.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
		}),
		"SecretVolumeSource.defaultUser":      volumeWith(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", DefaultUser: user}}),
		"ConfigMapVolumeSource.defaultUser":   volumeWith(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{DefaultUser: user}}),
		"DownwardAPIVolumeSource.defaultUser": volumeWith(v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{DefaultUser: user}}),
		"ProjectedVolumeSource.defaultUser":   volumeWith(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultUser: user}}),
		"DownwardAPIVolumeFile.user":          projected(v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "a", User: user}}}}),
		"KeyToPath.user":                      projected(v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{Items: []v1.KeyToPath{{Key: "k", Path: "a", User: user}}}}),
		"ServiceAccountTokenProjection.user":  projected(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "t", User: user}}),
		"ClusterTrustBundleProjection.user":   projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "t", User: user}}),
		"PodCertificateProjection.user":       projected(v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{KeyPath: "t", User: user}}),
	}
}

// podWith returns a pod that sets a field of the table.
func podWith(t *testing.T, kind, field string) *v1.Pod {
	t.Helper()
	if pod := podsWith()[kind+"."+field]; pod != nil {
		return pod
	}
	set := func(owner reflect.Value) {
		for i := range owner.NumField() {
			if name, _, _ := strings.Cut(owner.Type().Field(i).Tag.Get("json"), ","); name == field {
				setSome(owner.Field(i))
				return
			}
		}
		t.Fatalf("%s has no field %s", kind, field)
	}
	switch kind {
	case "VolumeSource":
		var s v1.VolumeSource
		set(reflect.ValueOf(&s).Elem())
		return volumeWith(s)
	case "EphemeralContainerCommon":
		pod := newPod("asks")
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "app:1"}}}
		set(reflect.ValueOf(&pod.Spec.EphemeralContainers[0].EphemeralContainerCommon).Elem())
		return pod
	}
	t.Fatalf("podsWith has no pod for %s.%s", kind, field)
	return nil
}

// setSome gives a field a nonzero value.
func setSome(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case v.Type() == reflect.TypeFor[v1.ResourceRequirements]():
		v.Set(reflect.ValueOf(v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}))
	}
}

// fieldsOf calls f for each field of the table with a verdict.
func fieldsOf(t *testing.T, verdict fields.Verdict, f func(t *testing.T, row fields.Row, pod *v1.Pod)) {
	for _, row := range fields.Table() {
		if row.Verdict != verdict {
			continue
		}
		for field := range strings.FieldsSeq(row.Fields) {
			t.Run(row.Type+"."+field, func(t *testing.T) { f(t, row, podWith(t, row.Type, field)) })
		}
	}
}

// TestRefusedFieldsAreRefused: FD1. A pod that sets only this field is refused, by its source or by
// admission, with the reason that the table names, and nothing of it is made.
func TestRefusedFieldsAreRefused(t *testing.T) {
	fieldsOf(t, fields.Refused, func(t *testing.T, row fields.Row, pod *v1.Pod) {
		synctest.Test(t, func(t *testing.T) {
			rt, manifests := fake.New(fake.Options{}), t.TempDir()
			files, err := source.NewFile(manifests, "n1", source.FileOptions{PollOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
				c.Sources, c.Pods.Objects = append(c.Sources, files), &objectsLater{exist: true}
			}).start()
			switch {
			case strings.HasPrefix(row.Decided, "syncloop/admission"):
				r.set(pod)
				r.phase(pod.UID, v1.PodFailed, time.Minute)
				if got := r.pod(pod.UID).Status.Reason; got != row.Why {
					t.Errorf("reason %q, the table says %q", got, row.Why)
				}
			case strings.HasSuffix(row.Decided, " apiReferences"):
				r.set()
				pod.APIVersion, pod.Kind = "v1", "Pod"
				manifest, err := json.Marshal(pod)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(manifests, "asks.json"), manifest, 0o600); err != nil {
					t.Fatal(err)
				}
				r.within(time.Minute, "a problem with the reason "+row.Why, func() error {
					if p := r.problems(); p == nil || !strings.Contains(p.Error(), row.Why) {
						return fmt.Errorf("problems: %v", p)
					}
					return nil
				})
			default:
				if err := r.source.Set(t.Context(), []*v1.Pod{pod}); err == nil || !strings.Contains(err.Error(), row.Why) {
					t.Errorf("the source says %v, the table %q", err, row.Why)
				}
			}
			if sandboxes, err := rt.ListPodSandbox(t.Context(), nil); err != nil || len(sandboxes) > 0 {
				t.Errorf("%d sandboxes, err %v", len(sandboxes), err)
			}
		})
	})
}

// TestWaitingFieldsWait: FD1. A pod that sets only this field does not run, and says why.
func TestWaitingFieldsWait(t *testing.T) {
	fieldsOf(t, fields.Waits, func(t *testing.T, row fields.Row, pod *v1.Pod) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, fake.New(fake.Options{}), t.TempDir()).start()
			r.set(pod)
			<-time.After(time.Minute)
			synctest.Wait()
			reason, _, _ := strings.Cut(row.Why, ",")
			if st := r.pod(pod.UID).Status; len(st.ContainerStatuses) != 1 || st.ContainerStatuses[0].State.Running != nil || r.events.count("asks "+reason) == 0 {
				t.Errorf("status %+v, events %q", st, r.events.seen)
			}
		})
	})
}
