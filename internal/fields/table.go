package fields

import "slices"

// Folders of the table.
const (
	config    = "runtime/pods/internal/criconfig/"
	configT   = "runtime/pods/internal/criconfig "
	podsT     = "runtime/pods "
	sourceT   = "syncloop/source "
	admissT   = "syncloop/admission "
	engineT   = "internal/enginetest "
	probeT    = "probe "
	unused    = "syncloop/source/validateuse.go unused"
	refusals  = engineT + "TestRefusedFieldsAreRefused"
	waits     = engineT + "TestWaitingFieldsWait"
	scheduler = "for schedulers"
	apiServer = "for the API server"
	windows   = "for Windows"
)

// Table returns the verdicts on everything reachable from PodSpec.
func Table() []Row {
	return slices.Concat(podRows(), containerRows(), ephemeralRows(), securityRows(), probeRows(), environmentRows(), nodeRows(), volumeRows())
}

func podRows() []Row {
	const pod = "PodSpec"
	return []Row{
		{pod, "volumes", Honoured, "", "runtime/pods/podvolumes.go setUpVolumes", podsT + "TestVolumeMounts"},
		{pod, "initContainers", Honoured, "", "runtime/pods/internal/actions/init.go initContainers", "runtime/pods/internal/actions TestInitContainersRunInOrder"},
		{pod, "containers", Honoured, "", "runtime/pods/internal/actions/compute.go Compute", "runtime/pods/internal/actions TestAppContainersFollowTheirPolicy"},
		{pod, "ephemeralContainers", Honoured, "", "runtime/pods/internal/actions/compute.go Compute", "runtime/pods/internal/actions TestEphemeralContainersStartOnce"},
		{pod, "restartPolicy", Honoured, "", "internal/restartpolicy/restartpolicy.go OnExit", "internal/restartpolicy TestRulesThenOwnPolicyThenThePods"},
		{pod, "terminationGracePeriodSeconds", Honoured, "", "runtime/pods/grace.go terminationGrace", podsT + "TestKillGrace"},
		{pod, "activeDeadlineSeconds", Honoured, "", "podworkers/podsync/deadline.go deadlineOf", "podworkers/podsync TestPodFailsAtItsDeadline"},
		{pod, "dnsPolicy dnsConfig", Honoured, "", config + "dns.go DNS", configT + "TestDNS"},
		{pod, "nodeSelector affinity", Honoured, "labels that are not known are not compared, with a warning", "syncloop/admission/nodematch.go NodeMatch", admissT + "TestNodeMatchComparesLabels"},
		{pod, "nodeName", Honoured, "", "syncloop/admission/nodematch.go NodeMatch", admissT + "TestHandlers"},
		{pod, "os", Honoured, "", "syncloop/admission/nodematch.go NodeMatch", admissT + "TestHandlers"},
		{pod, "serviceAccountName serviceAccount", Refused, "cannot refer to a service account", "syncloop/source/validatevolume.go apiReferences", refusals},
		{pod, "automountServiceAccountToken", NoEffect, apiServer + ", which adds the volume", "", ""},
		{pod, "hostNetwork hostPID hostIPC shareProcessNamespace hostUsers", Honoured, "", config + "namespaces.go namespaces", configT + "TestNamespacesFollowThePod"},
		{pod, "securityContext", Honoured, "", config + "security.go containerSecurity", configT + "TestContainerSecurityWinsOverThePods"},
		{pod, "imagePullSecrets", Honoured, "where config maps and secrets can be read; otherwise a manifest is refused", "runtime/pods/images.go pullSecrets", podsT + "TestPullSecrets"},
		{pod, "hostname subdomain setHostnameAsFQDN hostnameOverride", Honoured, "", config + "hostname.go Hostname", configT + "TestHostnameIsShortenedToTheKernelsLimit"},
		{pod, "hostAliases", Honoured, "", "runtime/pods/internal/poddir/hosts.go Hosts", "runtime/pods/internal/poddir TestHostsFileContent"},
		{pod, "priority priorityClassName", Honoured, "a resolved priority decides", "internal/podinfo/priority.go Critical", "internal/podinfo TestResolvedPriorityOutweighsTheClassName"},
		{pod, "preemptionPolicy schedulerName topologySpreadConstraints", NoEffect, scheduler, "", ""},
		{pod, "tolerations", Honoured, "of a pod of an API, for NoExecute taints of the node (`Config.Node.Object`); the rest is for schedulers", "syncloop/admission/taints.go Taints", admissT + "TestTaintsKeepPodsOfTheAPIOut"},
		{"Toleration", "key operator value effect", Honoured, "as for tolerations", "syncloop/admission/taints.go Taints", admissT + "TestTaintsKeepPodsOfTheAPIOut"},
		{"Toleration", "tolerationSeconds", NoEffect, "for those who set taints: a toleration lets the pod in, however short it lasts", "", ""},
		{pod, "schedulingGates", Refused, "schedulingGates", "syncloop/source/validate.go spec", refusals},
		{pod, "schedulingGroup", NoEffect, scheduler, "", ""},
		{pod, "evictionResponders", NoEffect, "for controllers", "", ""},
		{pod, "readinessGates", Honoured, "", "status/conditions.go podReady", "status TestReadinessGates"},
		{pod, "runtimeClassName", Honoured, "", "runtime/pods/sandboxconfig.go runtimeClass", podsT + "TestRuntimeClass"},
		{pod, "enableServiceLinks", Honoured, "", "runtime/pods/environment.go services", podsT + "TestEnvironmentSources"},
		{pod, "overhead resources", Honoured, "", "internal/podinfo/resources.go Requests", "internal/podinfo TestPodRequestAndLimit"},
		{pod, "resourceClaims", Refused, "UnexpectedAdmissionError", "syncloop/admission/abilities.go Able", refusals},
	}
}

func containerRows() []Row {
	const c = "Container"
	return []Row{
		{c, "name image command args workingDir stdin stdinOnce tty", Honoured, "", config + "container.go Container", configT + "TestContainerConfigFollowsItsDefinition"},
		{c, "ports", Honoured, "", config + "ports.go PortMappings", configT + "TestPortMappings"},
		{c, "env envFrom", Honoured, "", config + "env.go NewEnvironment", configT + "TestEnvironmentFromObjects"},
		{c, "resources", Honoured, "", config + "resources.go ContainerResources", configT + "TestResourcesBecomeSharesQuotaAndLimit"},
		{c, "resizePolicy", Honoured, "", "runtime/pods/internal/resize/decide.go Decide", "runtime/pods/internal/resize TestPolicyOfEachResourceDecidesOnARestart"},
		{c, "restartPolicy restartPolicyRules", Honoured, "a manifest with rules and without a restartPolicy of the container itself is refused", "internal/restartpolicy/restartpolicy.go OnExit", "internal/restartpolicy TestRulesThenOwnPolicyThenThePods"},
		{c, "volumeMounts", Honoured, "", "runtime/pods/mounts.go mount", podsT + "TestVolumeMounts"},
		{c, "volumeDevices", Honoured, "", "runtime/pods/mountfeatures.go devices", podsT + "TestPluginVolume"},
		{c, "livenessProbe readinessProbe startupProbe", Honoured, "in app containers and sidecars; a manifest with them in another init container is refused", "probe/manager.go AddPod", probeT + "TestAppContainersAndSidecarsAreProbed"},
		{c, "lifecycle", Honoured, "hooks in app containers and sidecars; a manifest with them in another init container is refused", "runtime/pods/hooks.go runHook", podsT + "TestPostStart"},
		{c, "terminationMessagePath terminationMessagePolicy", Honoured, "", "runtime/pods/termination.go TerminationMessage", podsT + "TestTerminationMessage"},
		{c, "imagePullPolicy", Honoured, "", "runtime/pods/internal/images/puller.go Ensure", "runtime/pods/internal/images TestPolicyDecidesWhetherToPull"},
		{c, "securityContext", Honoured, "", config + "security.go containerSecurity", configT + "TestContainerSecurityWinsOverThePods"},
		{"ContainerPort", "name containerPort hostPort protocol hostIP", Honoured, "", config + "ports.go PortMappings", configT + "TestPortMappings"},
		{"ContainerResizePolicy", "resourceName restartPolicy", Honoured, "", "runtime/pods/internal/resize/decide.go Decide", "runtime/pods/internal/resize TestPolicyOfEachResourceDecidesOnARestart"},
		{"ContainerRestartRule", "action exitCodes", Honoured, "", "internal/restartpolicy/restartpolicy.go OnExit", "internal/restartpolicy TestRulesThenOwnPolicyThenThePods"},
		{"ContainerRestartRuleOnExitCodes", "operator values", Honoured, "", "internal/restartpolicy/restartpolicy.go OnExit", "internal/restartpolicy TestRulesThenOwnPolicyThenThePods"},
		{"ResourceRequirements", "limits requests", Honoured, "extended resources and huge pages that the node lacks are refused (OutOf and the name); ephemeral-storage limits are enforced by eviction", "syncloop/admission/resources.go Scarce", admissT + "TestScarceIsWhatNodesHaveOnlyIfTheySaySo"},
		{"ResourceRequirements", "claims", Refused, "UnexpectedAdmissionError", "syncloop/admission/abilities.go Able", refusals},
		{"VolumeMount", "name readOnly mountPath subPath subPathExpr mountPropagation", Honoured, "", "runtime/pods/mounts.go mount", podsT + "TestVolumeMounts"},
		{"VolumeMount", "recursiveReadOnly bindMountOptions", Honoured, "if the runtime can; otherwise the container waits", "runtime/pods/mountfeatures.go recursiveReadOnly", podsT + "TestVolumeMounts"},
		{"VolumeDevice", "name devicePath", Honoured, "", "runtime/pods/mountfeatures.go devices", podsT + "TestPluginVolume"},
		{"Lifecycle", "postStart preStop", Honoured, "", "runtime/pods/hooks.go runHook", podsT + "TestPostStart"},
		{"Lifecycle", "stopSignal", Honoured, "", config + "container.go stopSignal", configT + "TestContainerConfigFollowsItsDefinition"},
		{"LifecycleHandler", "exec httpGet sleep", Honoured, "", "runtime/pods/hooks.go runHook", podsT + "TestPostStart"},
		{"LifecycleHandler", "tcpSocket", Waits, "FailedPostStartHook", "runtime/pods/hooks.go runHook", waits},
		{"SleepAction", "seconds", Honoured, "", "runtime/pods/hooks.go sleepHook", podsT + "TestSleepCancelled"},
	}
}

func ephemeralRows() []Row {
	const e = "EphemeralContainerCommon"
	return []Row{
		{"EphemeralContainer", "targetContainerName", Honoured, "", "runtime/pods/start.go targetID", podsT + "TestEphemeralContainer"},
		{e, "name image command args workingDir stdin stdinOnce tty", Honoured, "", config + "container.go Container", podsT + "TestEphemeralContainer"},
		{e, "env envFrom", Honoured, "", config + "env.go NewEnvironment", configT + "TestEnvironmentFromObjects"},
		{e, "volumeMounts", Honoured, "", "runtime/pods/mounts.go mount", podsT + "TestVolumeMounts"},
		{e, "volumeDevices", Honoured, "", "runtime/pods/mountfeatures.go devices", podsT + "TestPluginVolume"},
		{e, "terminationMessagePath terminationMessagePolicy", Honoured, "", "runtime/pods/termination.go TerminationMessage", podsT + "TestTerminationMessage"},
		{e, "imagePullPolicy", Honoured, "", "runtime/pods/internal/images/puller.go Ensure", "runtime/pods/internal/images TestPolicyDecidesWhetherToPull"},
		{e, "securityContext", Honoured, "", config + "security.go containerSecurity", configT + "TestContainerSecurityWinsOverThePods"},
		{e, "ports resources resizePolicy restartPolicy restartPolicyRules livenessProbe readinessProbe startupProbe lifecycle", Refused, "an ephemeral container cannot have it", unused, refusals},
	}
}

func securityRows() []Row {
	const pod, c = "PodSecurityContext", "SecurityContext"
	const wins = configT + "TestContainerSecurityWinsOverThePods"
	const decided = config + "security.go containerSecurity"
	return []Row{
		{pod, "seLinuxOptions runAsUser runAsGroup runAsNonRoot seccompProfile", Honoured, "", decided, wins},
		{pod, "appArmorProfile", Honoured, "where the kernel enforces it; otherwise refused: AppArmor", "syncloop/admission/abilities.go Able", admissT + "TestAbleRefusesWhatTheNodeCannotDo"},
		{pod, "windowsOptions", NoEffect, windows, "", ""},
		{pod, "supplementalGroups fsGroup", Honoured, "", config + "sandbox.go groups", configT + "TestSandboxConfigFollowsThePod"},
		{pod, "supplementalGroupsPolicy", Honoured, "Strict where the runtime can (`runtime/process`: as root); otherwise refused: SupplementalGroupsPolicyNotSupported", "syncloop/admission/abilities.go Able", engineT + "TestPodsNeverRunWithoutWhatTheyAskFor"},
		{pod, "sysctls", Honoured, "", config + "sysctl.go CheckSysctls", configT + "TestCheckSysctls"},
		{pod, "fsGroupChangePolicy", Honoured, "", "runtime/pods/podvolumes.go giveToGroup", podsT + "TestPluginFSGroup"},
		{pod, "seLinuxChangePolicy", NoEffect, "files are relabelled by the runtime, as Recursive says; MountOption is for volume managers", "", ""},
		{c, "capabilities privileged seLinuxOptions runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation procMount seccompProfile", Honoured, "", decided, wins},
		{c, "appArmorProfile", Honoured, "where the kernel enforces it; otherwise refused: AppArmor", "syncloop/admission/abilities.go Able", admissT + "TestAbleRefusesWhatTheNodeCannotDo"},
		{c, "windowsOptions", NoEffect, windows, "", ""},
		{"Capabilities", "add drop", Honoured, "", config + "security.go capabilities", wins},
		{"SELinuxOptions", "user role type level", Honoured, "", config + "sandbox.go selinux", configT + "TestSandboxConfigFollowsThePod"},
		{"SeccompProfile", "type localhostProfile", Honoured, "", config + "security.go seccompProfile", wins},
		{"AppArmorProfile", "type localhostProfile", Honoured, "", config + "security.go setAppArmor", wins},
		{"Sysctl", "name value", Honoured, "", config + "sysctl.go CheckSysctls", configT + "TestSafeSysctls"},
	}
}

func probeRows() []Row {
	return []Row{
		{"Probe", "initialDelaySeconds timeoutSeconds periodSeconds", Honoured, "", "probe/timing.go timingOf", probeT + "TestTimingIsBoundedAndOverridable"},
		{"Probe", "successThreshold failureThreshold", Honoured, "", "probe/timing.go thresholdsOf", probeT + "TestThresholdsTurnResults"},
		{"Probe", "terminationGracePeriodSeconds", Honoured, "in startup and liveness probes; a manifest with it in a readiness probe is refused", "runtime/pods/grace.go probeGrace", podsT + "TestLivenessFailure"},
		{"ProbeHandler", "exec", Honoured, "", "probe/exec.go Probe", probeT + "TestExecFollowsTheExitCode"},
		{"ProbeHandler", "httpGet", Honoured, "", "probe/http.go Probe", probeT + "TestHTTP"},
		{"ProbeHandler", "tcpSocket", Honoured, "", "probe/tcp.go Probe", probeT + "TestTCP"},
		{"ProbeHandler", "grpc", Honoured, "", "probe/grpc.go Probe", probeT + "TestGRPC"},
		{"ExecAction", "command", Honoured, "", "probe/exec.go Probe", probeT + "TestExecFollowsTheExitCode"},
		{"HTTPGetAction", "path port scheme httpHeaders", Honoured, "", "probe/http.go Probe", probeT + "TestHTTP"},
		{"HTTPGetAction", "host", Honoured, "where Config.Outbound permits it; otherwise the probe or hook fails", "internal/outbound/dialer.go Dial", probeT + "TestProbesStayOutOfTheNodesNetwork"},
		{"HTTPGetAction", "protocol", Honoured, "HTTP2 in probes if switched on; otherwise refused: UnexpectedAdmissionError", "syncloop/admission/abilities.go probes", admissT + "TestAbleRefusesWhatTheNodeCannotDo"},
		{"HTTPHeader", "name value", Honoured, "", "probe/http.go request", probeT + "TestHTTP"},
		{"TCPSocketAction", "port", Honoured, "", "probe/tcp.go Probe", probeT + "TestTCP"},
		{"TCPSocketAction", "host", Honoured, "where Config.Outbound permits it; otherwise the probe or hook fails", "internal/outbound/dialer.go Dial", probeT + "TestProbesStayOutOfTheNodesNetwork"},
		{"GRPCAction", "port service", Honoured, "", "probe/grpc.go Probe", probeT + "TestGRPC"},
		{"GRPCAction", "mode", Honoured, "TLS if switched on; otherwise refused: UnexpectedAdmissionError", "syncloop/admission/abilities.go probes", admissT + "TestAbleRefusesWhatTheNodeCannotDo"},
	}
}

func environmentRows() []Row {
	const env, objects = config + "env.go valueFrom", configT + "TestEnvironmentFromObjects"
	const allowed = "where config maps and secrets can be read; otherwise a manifest is refused"
	return []Row{
		{"EnvVar", "name value valueFrom", Honoured, "", config + "env.go add", configT + "TestLaterVariablesReplaceEarlierOnes"},
		{"EnvVarSource", "fieldRef", Honoured, "", config + "downward.go FieldValue", configT + "TestPodIPOrder"},
		{"EnvVarSource", "resourceFieldRef", Honoured, "", config + "resourcefield.go ResourceValue", configT + "TestResourceFields"},
		{"EnvVarSource", "configMapKeyRef secretKeyRef", Honoured, allowed, env, objects},
		{"EnvVarSource", "fileKeyRef", Honoured, "", config + "envfile.go FileKey", configT + "TestFileKey"},
		{"EnvFromSource", "prefix configMapRef secretRef", Honoured, allowed, config + "env.go addAll", objects},
		{"ConfigMapEnvSource", "optional", Honoured, "", config + "env.go unlessOptional", objects},
		{"SecretEnvSource", "optional", Honoured, "", config + "env.go unlessOptional", objects},
		{"ConfigMapKeySelector", "key optional", Honoured, "", config + "env.go configMapValue", objects},
		{"SecretKeySelector", "key optional", Honoured, "", config + "env.go secretValue", objects},
		{"FileKeySelector", "volumeName path key optional", Honoured, "", config + "env.go fileValue", podsT + "TestFileKeyStaysInVolume"},
		{"LocalObjectReference", "name", Honoured, "", "internal/podinfo/refers.go Refers", "internal/podinfo TestRefersFindsEveryKindOfReference"},
		{"ObjectFieldSelector", "fieldPath", Honoured, "", config + "downward.go FieldValue", configT + "TestPodIPOrder"},
		{"ObjectFieldSelector", "apiVersion", NoEffect, "there is one version", "", ""},
		{"ResourceFieldSelector", "containerName resource divisor", Honoured, "", config + "resourcefield.go ResourceValue", configT + "TestResourceFields"},
	}
}

func nodeRows() []Row {
	const match, shown = "syncloop/admission/nodematch.go NodeMatch", admissT + "TestNodeMatchComparesLabels"
	return []Row{
		{"Affinity", "nodeAffinity", Honoured, "", match, shown},
		{"Affinity", "podAffinity podAntiAffinity", NoEffect, scheduler, "", ""},
		{"NodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", Honoured, "", match, shown},
		{"NodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", NoEffect, scheduler, "", ""},
		{"NodeSelector", "nodeSelectorTerms", Honoured, "", match, shown},
		{"NodeSelectorTerm", "matchExpressions matchFields", Honoured, "", "syncloop/admission/nodematch.go termMismatch", shown},
		{"NodeSelectorRequirement", "key operator values", Honoured, "", "syncloop/admission/nodematch.go unmet", shown},
		{"HostAlias", "ip hostnames", Honoured, "", "runtime/pods/internal/poddir/hosts.go Hosts", "runtime/pods/internal/poddir TestHostsFileContent"},
		{"PodDNSConfig", "nameservers searches options", Honoured, "", config + "dns.go DNS", configT + "TestDNS"},
		{"PodDNSConfigOption", "name value", Honoured, "", config + "dns.go DNS", configT + "TestDNS"},
		{"PodReadinessGate", "conditionType", Honoured, "", "status/conditions.go podReady", "status TestReadinessGates"},
		{"PodOS", "name", Honoured, "", match, admissT + "TestHandlers"},
	}
}
