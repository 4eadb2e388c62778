package kube

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

// settings are what /configz shows: the fields of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that
// an agent has, with the values in force. None can hold a secret: credential files and URLs are left out.
type settings struct {
	EnableServer       bool   `json:"enableServer"`
	Port               int32  `json:"port"`
	TLSMinVersion      string `json:"tlsMinVersion"`
	RotateCertificates bool   `json:"rotateCertificates"`
	ServerTLSBootstrap bool   `json:"serverTLSBootstrap"`
	Authentication     struct {
		Anonymous toggle `json:"anonymous"`
		Webhook   toggle `json:"webhook"`
	} `json:"authentication"`
	Authorization struct {
		Mode string `json:"mode"`
	} `json:"authorization"`

	RegisterNode       bool              `json:"registerNode"`
	RegisterWithTaints []v1.Taint        `json:"registerWithTaints,omitempty"`
	LeaseSeconds       int32             `json:"nodeLeaseDurationSeconds"`
	MaxPods            int32             `json:"maxPods"`
	SystemReserved     map[string]string `json:"systemReserved,omitempty"`
	ClusterDNS         []string          `json:"clusterDNS,omitempty"`
	ClusterDomain      string            `json:"clusterDomain"`
	ResolvConf         string            `json:"resolvConf,omitempty"`
	ChangeDetection    string            `json:"configMapAndSecretChangeDetectionStrategy"`

	PodLogsDir        string           `json:"podLogsDir"`
	ContainerLogSize  string           `json:"containerLogMaxSize,omitempty"`
	ContainerLogFiles int              `json:"containerLogMaxFiles"`
	MaxParallelPulls  int              `json:"maxParallelImagePulls,omitempty"`
	SerializePulls    bool             `json:"serializeImagePulls"`
	ImageMinAge       *metav1.Duration `json:"imageMinimumGCAge,omitempty"`
	ImageMaxAge       *metav1.Duration `json:"imageMaximumGCAge,omitempty"`
	ImageHigh         int              `json:"imageGCHighThresholdPercent,omitempty"`
	ImageLow          int              `json:"imageGCLowThresholdPercent,omitempty"`

	EvictionHard       map[string]string `json:"evictionHard"`
	EvictionSoft       map[string]string `json:"evictionSoft,omitempty"`
	EvictionSoftGrace  map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	EvictionReclaim    map[string]string `json:"evictionMinimumReclaim,omitempty"`
	EvictionMaxGrace   int64             `json:"evictionMaxPodGracePeriod,omitempty"`
	EvictionTransition *metav1.Duration  `json:"evictionPressureTransitionPeriod,omitempty"`

	CgroupsPerQOS        bool            `json:"cgroupsPerQOS"`
	CPUQuota             bool            `json:"cpuCFSQuota"`
	CPUQuotaPeriod       metav1.Duration `json:"cpuCFSQuotaPeriod"`
	SeccompDefault       bool            `json:"seccompDefault"`
	AllowedUnsafeSysctls []string        `json:"allowedUnsafeSysctls,omitempty"`
	MemorySwap           struct {
		Behavior string `json:"swapBehavior"`
	} `json:"memorySwap"`
	CrashLoopBackOff struct {
		Max metav1.Duration `json:"maxContainerRestartPeriod"`
	} `json:"crashLoopBackOff"`
}

type toggle struct {
	Enabled bool `json:"enabled"`
}

// settingsOf returns the settings of an agent and its engine, with their documented defaults.
func settingsOf(o *Options, c *podwright.Config) settings {
	s := settings{
		EnableServer: true, Port: o.Node.Port, TLSMinVersion: "VersionTLS12",
		RotateCertificates: o.Certificates.Rotate, ServerTLSBootstrap: o.Certificates.Serving,
		RegisterNode: true, RegisterWithTaints: o.Node.Taints, LeaseSeconds: int32(nodehooks.LeaseDuration / time.Second),
		MaxPods: int32(cmp.Or(o.Node.MaxPods, max(0, c.Admission.MaxPods), 110)), SystemReserved: texts(o.Node.Reserved),
		ClusterDNS: c.Node.ClusterDNS, ClusterDomain: cmp.Or(c.Node.ClusterDomain, "cluster.local"), ResolvConf: c.Pods.ResolvConf,
		ChangeDetection: "Watch", PodLogsDir: cmp.Or(c.Storage.LogDir, filepath.Join(c.RootDir, "logs")),
		ContainerLogFiles: cmp.Or(c.Storage.LogRotation.MaxFiles, 5), MaxParallelPulls: c.Pods.MaxParallelImagePulls, SerializePulls: c.Pods.MaxParallelImagePulls == 1,
		CgroupsPerQOS: c.Pods.Cgroups != nil, CPUQuota: !c.Pods.NoCPUQuota, CPUQuotaPeriod: metav1.Duration{Duration: cmp.Or(c.Pods.CPUQuotaPeriod, 100*time.Millisecond)},
		SeccompDefault: c.Pods.SeccompDefault, AllowedUnsafeSysctls: c.Admission.AllowedSysctls,
	}
	s.Authentication.Webhook.Enabled, s.Authorization.Mode = true, "Webhook"
	if size := cmp.Or(c.Storage.LogRotation.MaxSize, 10<<20); size > 0 {
		s.ContainerLogSize = resource.NewQuantity(size, resource.BinarySI).String()
	}
	if s.MemorySwap.Behavior = "NoSwap"; c.Pods.LimitedSwap {
		s.MemorySwap.Behavior = "LimitedSwap"
	}
	s.CrashLoopBackOff.Max = metav1.Duration{Duration: cmp.Or(c.Pods.CrashLoopBackOff.Max, 5*time.Minute)}
	s.setImageGC(c.ImageGC)
	s.setEviction(c)
	return s
}

func (s *settings) setImageGC(gc *podwright.ImageGC) {
	if gc == nil {
		return
	}
	s.ImageHigh = cmp.Or(gc.Policy.HighPercent, 85)
	s.ImageLow = cmp.Or(gc.Policy.LowPercent, min(80, s.ImageHigh))
	s.ImageMinAge = &metav1.Duration{Duration: max(0, cmp.Or(gc.Policy.MinAge, 2*time.Minute))}
	s.ImageMaxAge = &metav1.Duration{Duration: gc.Policy.MaxAge}
}

func (s *settings) setEviction(c *podwright.Config) {
	s.EvictionHard, s.EvictionSoft, s.EvictionSoftGrace, s.EvictionReclaim = map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	for _, limit := range evictionLimits(c) {
		signal := string(limit.Signal)
		if limit.Hard() {
			s.EvictionHard[signal] = valueText(limit.Value)
		} else {
			s.EvictionSoft[signal], s.EvictionSoftGrace[signal] = valueText(limit.Value), limit.Grace.String()
		}
		if limit.MinReclaim != (eviction.Value{}) {
			s.EvictionReclaim[signal] = valueText(limit.MinReclaim)
		}
	}
	if c.Eviction != nil {
		s.EvictionMaxGrace = int64(c.Eviction.Policy.MaxPodGrace / time.Second)
		s.EvictionTransition = &metav1.Duration{Duration: max(0, cmp.Or(c.Eviction.Policy.Transition, 5*time.Minute))}
	}
}

// valueText is a limit as the kubelet's configuration writes it.
func valueText(v eviction.Value) string {
	if v.Percent != 0 {
		return fmt.Sprintf("%g%%", v.Percent)
	}
	return resource.NewQuantity(int64(min(v.Quantity, 1<<62)), resource.BinarySI).String()
}

func texts(list v1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, amount := range list {
		out[string(name)] = amount.String()
	}
	return out
}
