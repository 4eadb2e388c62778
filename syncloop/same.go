package syncloop

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
)

// Every message compares a full set with the one before, and nearly always a pod has not
// changed. Common fields are compared by name, which allocates nothing and costs a
// twentieth of reflection; rare fields are left to reflection. The result is that of
// apiequality.Semantic: tests walk over all fields of the API types and compare random
// pods both ways, so they fail if a new Kubernetes version adds a field that is not
// compared here.

// sameSpec reports whether two specs mean the same (M6).
func sameSpec(a, b *v1.PodSpec) bool {
	return sameList(a.Containers, b.Containers, sameContainer) &&
		sameList(a.InitContainers, b.InitContainers, sameContainer) &&
		sameList(a.EphemeralContainers, b.EphemeralContainers, sameEphemeral) &&
		sameList(a.Volumes, b.Volumes, sameVolume) &&
		a.RestartPolicy == b.RestartPolicy && a.DNSPolicy == b.DNSPolicy &&
		a.ServiceAccountName == b.ServiceAccountName && a.DeprecatedServiceAccount == b.DeprecatedServiceAccount &&
		a.NodeName == b.NodeName && a.Hostname == b.Hostname && a.Subdomain == b.Subdomain &&
		a.HostNetwork == b.HostNetwork && a.HostPID == b.HostPID && a.HostIPC == b.HostIPC &&
		a.SchedulerName == b.SchedulerName && a.PriorityClassName == b.PriorityClassName &&
		same(a.TerminationGracePeriodSeconds, b.TerminationGracePeriodSeconds) &&
		same(a.ActiveDeadlineSeconds, b.ActiveDeadlineSeconds) &&
		same(a.AutomountServiceAccountToken, b.AutomountServiceAccountToken) &&
		same(a.ShareProcessNamespace, b.ShareProcessNamespace) &&
		same(a.Priority, b.Priority) && same(a.PreemptionPolicy, b.PreemptionPolicy) &&
		same(a.RuntimeClassName, b.RuntimeClassName) && same(a.EnableServiceLinks, b.EnableServiceLinks) &&
		same(a.SetHostnameAsFQDN, b.SetHostnameAsFQDN) && same(a.HostnameOverride, b.HostnameOverride) &&
		same(a.OS, b.OS) && same(a.HostUsers, b.HostUsers) &&
		sameInner(a.SecurityContext, b.SecurityContext, samePodSecurity) &&
		sameInner(a.Resources, b.Resources, sameResources) && podinfo.SameAmounts(a.Overhead, b.Overhead) &&
		maps.Equal(a.NodeSelector, b.NodeSelector) &&
		slices.Equal(a.ImagePullSecrets, b.ImagePullSecrets) &&
		slices.Equal(a.ReadinessGates, b.ReadinessGates) && slices.Equal(a.SchedulingGates, b.SchedulingGates) &&
		sameList(a.Tolerations, b.Tolerations, sameToleration) &&
		sameRare(a.Affinity, b.Affinity) && sameRare(a.DNSConfig, b.DNSConfig) && sameRare(a.SchedulingGroup, b.SchedulingGroup) &&
		sameList(a.HostAliases, b.HostAliases, sameRare) &&
		sameList(a.TopologySpreadConstraints, b.TopologySpreadConstraints, sameRare) &&
		sameList(a.ResourceClaims, b.ResourceClaims, sameRare) &&
		sameList(a.EvictionResponders, b.EvictionResponders, sameRare)
}

func sameContainer(a, b *v1.Container) bool {
	return a.Name == b.Name && a.Image == b.Image && a.WorkingDir == b.WorkingDir &&
		slices.Equal(a.Command, b.Command) && slices.Equal(a.Args, b.Args) && slices.Equal(a.Ports, b.Ports) &&
		sameList(a.EnvFrom, b.EnvFrom, sameEnvFrom) && sameList(a.Env, b.Env, sameEnv) &&
		sameResources(&a.Resources, &b.Resources) && slices.Equal(a.ResizePolicy, b.ResizePolicy) &&
		same(a.RestartPolicy, b.RestartPolicy) && sameList(a.RestartPolicyRules, b.RestartPolicyRules, sameRare) &&
		sameList(a.VolumeMounts, b.VolumeMounts, sameMount) && slices.Equal(a.VolumeDevices, b.VolumeDevices) &&
		sameInner(a.LivenessProbe, b.LivenessProbe, sameProbe) &&
		sameInner(a.ReadinessProbe, b.ReadinessProbe, sameProbe) &&
		sameInner(a.StartupProbe, b.StartupProbe, sameProbe) &&
		sameInner(a.Lifecycle, b.Lifecycle, sameLifecycle) &&
		a.TerminationMessagePath == b.TerminationMessagePath && a.TerminationMessagePolicy == b.TerminationMessagePolicy &&
		a.ImagePullPolicy == b.ImagePullPolicy && sameInner(a.SecurityContext, b.SecurityContext, sameSecurity) &&
		a.Stdin == b.Stdin && a.StdinOnce == b.StdinOnce && a.TTY == b.TTY
}

func sameEphemeral(a, b *v1.EphemeralContainer) bool {
	return a.TargetContainerName == b.TargetContainerName &&
		sameContainer((*v1.Container)(&a.EphemeralContainerCommon), (*v1.Container)(&b.EphemeralContainerCommon))
}

func sameEnv(a, b *v1.EnvVar) bool {
	return a.Name == b.Name && a.Value == b.Value && sameInner(a.ValueFrom, b.ValueFrom, sameEnvSource)
}

func sameEnvSource(a, b *v1.EnvVarSource) bool {
	return same(a.FieldRef, b.FieldRef) && sameRare(a.ResourceFieldRef, b.ResourceFieldRef) && sameRare(a.FileKeyRef, b.FileKeyRef) &&
		sameInner(a.ConfigMapKeyRef, b.ConfigMapKeyRef, func(a, b *v1.ConfigMapKeySelector) bool {
			return a.Name == b.Name && a.Key == b.Key && same(a.Optional, b.Optional)
		}) &&
		sameInner(a.SecretKeyRef, b.SecretKeyRef, func(a, b *v1.SecretKeySelector) bool {
			return a.Name == b.Name && a.Key == b.Key && same(a.Optional, b.Optional)
		})
}

func sameEnvFrom(a, b *v1.EnvFromSource) bool {
	return a.Prefix == b.Prefix &&
		sameInner(a.ConfigMapRef, b.ConfigMapRef, func(a, b *v1.ConfigMapEnvSource) bool {
			return a.Name == b.Name && same(a.Optional, b.Optional)
		}) &&
		sameInner(a.SecretRef, b.SecretRef, func(a, b *v1.SecretEnvSource) bool {
			return a.Name == b.Name && same(a.Optional, b.Optional)
		})
}

func sameMount(a, b *v1.VolumeMount) bool {
	return a.Name == b.Name && a.ReadOnly == b.ReadOnly && same(a.RecursiveReadOnly, b.RecursiveReadOnly) &&
		a.MountPath == b.MountPath && a.SubPath == b.SubPath && a.SubPathExpr == b.SubPathExpr &&
		same(a.MountPropagation, b.MountPropagation) && slices.Equal(a.BindMountOptions, b.BindMountOptions)
}

func sameProbe(a, b *v1.Probe) bool {
	return sameInner(a.Exec, b.Exec, sameExec) && sameInner(a.HTTPGet, b.HTTPGet, sameGet) &&
		same(a.TCPSocket, b.TCPSocket) && sameRare(a.GRPC, b.GRPC) &&
		a.InitialDelaySeconds == b.InitialDelaySeconds && a.TimeoutSeconds == b.TimeoutSeconds && a.PeriodSeconds == b.PeriodSeconds &&
		a.SuccessThreshold == b.SuccessThreshold && a.FailureThreshold == b.FailureThreshold &&
		same(a.TerminationGracePeriodSeconds, b.TerminationGracePeriodSeconds)
}

func sameLifecycle(a, b *v1.Lifecycle) bool {
	hook := func(a, b *v1.LifecycleHandler) bool {
		return sameInner(a.Exec, b.Exec, sameExec) && sameInner(a.HTTPGet, b.HTTPGet, sameGet) &&
			same(a.TCPSocket, b.TCPSocket) && same(a.Sleep, b.Sleep)
	}
	return sameInner(a.PostStart, b.PostStart, hook) && sameInner(a.PreStop, b.PreStop, hook) && same(a.StopSignal, b.StopSignal)
}

func sameExec(a, b *v1.ExecAction) bool { return slices.Equal(a.Command, b.Command) }

func sameGet(a, b *v1.HTTPGetAction) bool {
	return a.Path == b.Path && a.Port == b.Port && a.Host == b.Host && a.Scheme == b.Scheme &&
		slices.Equal(a.HTTPHeaders, b.HTTPHeaders) && same(a.Protocol, b.Protocol)
}

func sameSecurity(a, b *v1.SecurityContext) bool {
	return sameInner(a.Capabilities, b.Capabilities, func(a, b *v1.Capabilities) bool {
		return slices.Equal(a.Add, b.Add) && slices.Equal(a.Drop, b.Drop)
	}) &&
		same(a.Privileged, b.Privileged) && same(a.SELinuxOptions, b.SELinuxOptions) && sameRare(a.WindowsOptions, b.WindowsOptions) &&
		same(a.RunAsUser, b.RunAsUser) && same(a.RunAsGroup, b.RunAsGroup) && same(a.RunAsNonRoot, b.RunAsNonRoot) &&
		same(a.ReadOnlyRootFilesystem, b.ReadOnlyRootFilesystem) && same(a.AllowPrivilegeEscalation, b.AllowPrivilegeEscalation) &&
		same(a.ProcMount, b.ProcMount) && sameInner(a.SeccompProfile, b.SeccompProfile, sameSeccomp) && sameRare(a.AppArmorProfile, b.AppArmorProfile)
}

func samePodSecurity(a, b *v1.PodSecurityContext) bool {
	return same(a.SELinuxOptions, b.SELinuxOptions) && sameRare(a.WindowsOptions, b.WindowsOptions) &&
		same(a.RunAsUser, b.RunAsUser) && same(a.RunAsGroup, b.RunAsGroup) && same(a.RunAsNonRoot, b.RunAsNonRoot) &&
		slices.Equal(a.SupplementalGroups, b.SupplementalGroups) && same(a.SupplementalGroupsPolicy, b.SupplementalGroupsPolicy) &&
		same(a.FSGroup, b.FSGroup) && same(a.FSGroupChangePolicy, b.FSGroupChangePolicy) && slices.Equal(a.Sysctls, b.Sysctls) &&
		sameInner(a.SeccompProfile, b.SeccompProfile, sameSeccomp) && sameRare(a.AppArmorProfile, b.AppArmorProfile) &&
		same(a.SELinuxChangePolicy, b.SELinuxChangePolicy)
}

func sameSeccomp(a, b *v1.SeccompProfile) bool {
	return a.Type == b.Type && same(a.LocalhostProfile, b.LocalhostProfile)
}

func sameToleration(a, b *v1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect &&
		same(a.TolerationSeconds, b.TolerationSeconds)
}

// sameVolume compares the sources that most volumes have. The rest of a volume is
// compared as a whole.
func sameVolume(a, b *v1.Volume) bool {
	x, y := *a, *b
	x.EmptyDir, x.HostPath, x.ConfigMap, x.Secret, x.Projected, x.PersistentVolumeClaim = nil, nil, nil, nil, nil, nil
	y.EmptyDir, y.HostPath, y.ConfigMap, y.Secret, y.Projected, y.PersistentVolumeClaim = nil, nil, nil, nil, nil, nil
	if x != y {
		return apiequality.Semantic.DeepEqual(a, b)
	}
	return sameInner(a.EmptyDir, b.EmptyDir, func(a, b *v1.EmptyDirVolumeSource) bool {
		return a.Medium == b.Medium && same(a.Mode, b.Mode) &&
			sameInner(a.SizeLimit, b.SizeLimit, func(a, b *resource.Quantity) bool { return a.Cmp(*b) == 0 })
	}) &&
		sameInner(a.HostPath, b.HostPath, func(a, b *v1.HostPathVolumeSource) bool {
			return a.Path == b.Path && same(a.Type, b.Type)
		}) &&
		sameInner(a.ConfigMap, b.ConfigMap, func(a, b *v1.ConfigMapVolumeSource) bool {
			return a.Name == b.Name && sameList(a.Items, b.Items, sameItem) &&
				same(a.DefaultMode, b.DefaultMode) && same(a.Optional, b.Optional) && same(a.DefaultUser, b.DefaultUser)
		}) &&
		sameInner(a.Secret, b.Secret, func(a, b *v1.SecretVolumeSource) bool {
			return a.SecretName == b.SecretName && sameList(a.Items, b.Items, sameItem) &&
				same(a.DefaultMode, b.DefaultMode) && same(a.Optional, b.Optional) && same(a.DefaultUser, b.DefaultUser)
		}) &&
		sameInner(a.Projected, b.Projected, func(a, b *v1.ProjectedVolumeSource) bool {
			return same(a.DefaultMode, b.DefaultMode) && same(a.DefaultUser, b.DefaultUser) && sameList(a.Sources, b.Sources, sameProjection)
		}) &&
		same(a.PersistentVolumeClaim, b.PersistentVolumeClaim)
}

func sameItem(a, b *v1.KeyToPath) bool {
	return a.Key == b.Key && a.Path == b.Path && same(a.Mode, b.Mode) && same(a.User, b.User)
}

// sameProjection knows what the API server gives every pod: a token, the cluster's
// certificate, the namespace.
func sameProjection(a, b *v1.VolumeProjection) bool {
	x, y := *a, *b
	x.ServiceAccountToken, x.ConfigMap, x.DownwardAPI = nil, nil, nil
	y.ServiceAccountToken, y.ConfigMap, y.DownwardAPI = nil, nil, nil
	if x != y {
		return apiequality.Semantic.DeepEqual(a, b)
	}
	return sameInner(a.ServiceAccountToken, b.ServiceAccountToken, func(a, b *v1.ServiceAccountTokenProjection) bool {
		return a.Audience == b.Audience && same(a.ExpirationSeconds, b.ExpirationSeconds) && a.Path == b.Path && same(a.User, b.User)
	}) &&
		sameInner(a.ConfigMap, b.ConfigMap, func(a, b *v1.ConfigMapProjection) bool {
			return a.Name == b.Name && sameList(a.Items, b.Items, sameItem) && same(a.Optional, b.Optional)
		}) &&
		sameInner(a.DownwardAPI, b.DownwardAPI, func(a, b *v1.DownwardAPIProjection) bool {
			return sameList(a.Items, b.Items, func(a, b *v1.DownwardAPIVolumeFile) bool {
				return a.Path == b.Path && same(a.FieldRef, b.FieldRef) && sameRare(a.ResourceFieldRef, b.ResourceFieldRef) &&
					same(a.Mode, b.Mode) && same(a.User, b.User)
			})
		})
}

func sameResources(a, b *v1.ResourceRequirements) bool {
	return podinfo.SameAmounts(a.Requests, b.Requests) && podinfo.SameAmounts(a.Limits, b.Limits) && slices.Equal(a.Claims, b.Claims)
}

// sameStatus reports whether two statuses, as sources have them, mean the same.
func sameStatus(a, b *v1.PodStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.Phase == b.Phase &&
		sameList(a.Conditions, b.Conditions, sameCondition) &&
		a.Message == b.Message && a.Reason == b.Reason && a.NominatedNodeName == b.NominatedNodeName &&
		a.HostIP == b.HostIP && slices.Equal(a.HostIPs, b.HostIPs) && a.PodIP == b.PodIP && slices.Equal(a.PodIPs, b.PodIPs) &&
		a.StartTime.Equal(b.StartTime) &&
		sameList(a.InitContainerStatuses, b.InitContainerStatuses, sameContainerStatus) &&
		sameList(a.ContainerStatuses, b.ContainerStatuses, sameContainerStatus) &&
		sameList(a.EphemeralContainerStatuses, b.EphemeralContainerStatuses, sameContainerStatus) &&
		a.QOSClass == b.QOSClass && a.Resize == b.Resize &&
		podinfo.SameAmounts(a.AllocatedResources, b.AllocatedResources) && sameInner(a.Resources, b.Resources, sameResources) &&
		sameRare(a.ExtendedResourceClaimStatus, b.ExtendedResourceClaimStatus) &&
		sameList(a.ResourceClaimStatuses, b.ResourceClaimStatuses, sameRare) &&
		sameList(a.NodeAllocatableResourceClaimStatuses, b.NodeAllocatableResourceClaimStatuses, sameRare) &&
		sameList(a.VolumeHealth, b.VolumeHealth, sameRare)
}

func sameCondition(a, b *v1.PodCondition) bool {
	return a.Type == b.Type && a.ObservedGeneration == b.ObservedGeneration && a.Status == b.Status &&
		a.LastProbeTime.Equal(&b.LastProbeTime) && a.LastTransitionTime.Equal(&b.LastTransitionTime) &&
		a.Reason == b.Reason && a.Message == b.Message
}

func sameContainerStatus(a, b *v1.ContainerStatus) bool {
	return a.Name == b.Name && sameState(&a.State, &b.State) && sameState(&a.LastTerminationState, &b.LastTerminationState) &&
		a.Ready == b.Ready && a.RestartCount == b.RestartCount &&
		a.Image == b.Image && a.ImageID == b.ImageID && a.ContainerID == b.ContainerID && same(a.Started, b.Started) &&
		podinfo.SameAmounts(a.AllocatedResources, b.AllocatedResources) && sameInner(a.Resources, b.Resources, sameResources) &&
		sameList(a.VolumeMounts, b.VolumeMounts, sameMountStatus) && sameRare(a.User, b.User) &&
		sameList(a.AllocatedResourcesStatus, b.AllocatedResourcesStatus, sameRare) && same(a.StopSignal, b.StopSignal)
}

func sameState(a, b *v1.ContainerState) bool {
	return same(a.Waiting, b.Waiting) &&
		sameInner(a.Running, b.Running, func(a, b *v1.ContainerStateRunning) bool { return a.StartedAt.Equal(&b.StartedAt) }) &&
		sameInner(a.Terminated, b.Terminated, func(a, b *v1.ContainerStateTerminated) bool {
			return a.ExitCode == b.ExitCode && a.Signal == b.Signal && a.Reason == b.Reason && a.Message == b.Message &&
				a.StartedAt.Equal(&b.StartedAt) && a.FinishedAt.Equal(&b.FinishedAt) && a.ContainerID == b.ContainerID
		})
}

func sameMountStatus(a, b *v1.VolumeMountStatus) bool {
	return a.Name == b.Name && a.MountPath == b.MountPath && a.ReadOnly == b.ReadOnly &&
		same(a.RecursiveReadOnly, b.RecursiveReadOnly) && sameRare(a.VolumeStatus, b.VolumeStatus)
}

// same compares what is pointed to, which must hold no pointers itself.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func sameInner[T any](a, b *T, inner func(a, b *T) bool) bool {
	return a == b || a != nil && b != nil && inner(a, b)
}

// sameRare leaves what few pods have to reflection.
func sameRare[T any](a, b *T) bool {
	return a == b || a != nil && b != nil && apiequality.Semantic.DeepEqual(a, b)
}

// sameList compares lists; an empty one is none.
func sameList[T any](a, b []T, inner func(a, b *T) bool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !inner(&a[i], &b[i]) {
			return false
		}
	}
	return true
}
