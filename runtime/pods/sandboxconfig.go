package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
	"github.com/podwright/podwright/runtime/pods/internal/userns"
)

// maxResolvConf bounds the resolver file (spec/runtime.md 4.3).
const maxResolvConf = 10 << 20

// configureSandbox builds the sandbox's configuration, which containers get too.
func (s *podSync) configureSandbox(ctx context.Context) bool {
	config, err := s.buildSandboxConfig(ctx)
	if err != nil && ctx.Err() != nil {
		s.stopped(ctx.Err())
		return false
	}
	if err != nil {
		s.fail(stepCreateSandbox, s.pod.Name, reasonConfigPodSandboxError, err)
		s.m.podEvent(s.pod, v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
		return false
	}
	security := config.Linux.SecurityContext
	security.SupplementalGroups = withVolumeGroups(s.pod, security.SupplementalGroups, s.volumes.groups())
	s.sandboxConfig = config
	return true
}

func (s *podSync) buildSandboxConfig(ctx context.Context) (*runtimeapi.PodSandboxConfig, error) {
	class, err := s.m.runtimeClass(s.pod)
	if err != nil && s.plan.CreateSandbox {
		// A sandbox that exists has its handler already.
		return nil, err
	}
	s.handler = cmp.Or(s.madeWith(), class.Handler)
	if s.users, err = s.userNamespace(ctx); err != nil {
		return nil, err
	}
	if err := s.checkGroups(ctx); err != nil {
		return nil, err
	}
	dns, err := s.m.dns(s.pod, s.plan.CreateSandbox)
	if err != nil {
		return nil, err
	}
	config, err := criconfig.Sandbox(criconfig.SandboxInput{
		Pod: s.pod, Node: s.m.node, Attempt: s.plan.Attempt, LogDirectory: s.m.logDirectory(s.pod), DNS: dns,
		UserNamespace: s.users, Overhead: class.Overhead,
	})
	if err == nil && s.plan.CreateSandbox {
		err = meta.CheckSize(&s.pod.Spec, config.Labels, config.Annotations)
	}
	if err == nil && s.m.options.Cgroups != nil {
		config.Linux.CgroupParent, err = s.m.options.Cgroups.Parent(podCgroup(s.pod))
	}
	return config, err
}

// madeWith returns the handler of the sandbox that containers are started in, empty if there is no
// sandbox or its handler is unknown. By now the class may name another handler, or be gone (KO11).
func (s *podSync) madeWith() string {
	if s.plan.CreateSandbox || s.status == nil {
		return ""
	}
	for _, b := range s.status.Sandboxes {
		if b.ID == s.plan.SandboxID {
			return b.RuntimeHandler
		}
	}
	return ""
}

// runtimeClass looks up the pod's class (spec/runtime.md 3.8).
func (m *Manager) runtimeClass(pod *v1.Pod) (RuntimeClass, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return RuntimeClass{}, nil
	}
	if m.options.RuntimeClasses == nil {
		return RuntimeClass{}, fmt.Errorf("runtime class %q: no runtime classes are configured on this node", *name)
	}
	class, err := m.options.RuntimeClasses.RuntimeClass(*name)
	if err != nil {
		return RuntimeClass{}, m.waits(fmt.Errorf("runtime class %q: %w", *name, err))
	}
	return class, nil
}

// userNamespace returns the pod's range of user IDs, nil if it shares the node's
// (spec/runtime.md 3.7). A sandbox that exists keeps the range it was made with.
func (s *podSync) userNamespace(ctx context.Context) (*criconfig.IDMapping, error) {
	if s.pod.Spec.HostUsers == nil || *s.pod.Spec.HostUsers {
		return nil, nil
	}
	if s.plan.CreateSandbox {
		if err := s.checkUserNamespaces(ctx); err != nil {
			return nil, err
		}
		mapping, err := s.m.users.Acquire(s.pod.UID)
		if err != nil {
			return nil, err
		}
		return (*criconfig.IDMapping)(&mapping), nil
	}
	mapping, ok, err := s.m.users.Get(s.pod.UID)
	if err == nil && !ok {
		err = errors.New("the record of the pod's user IDs is lost: delete the pod and create it again")
	}
	if err != nil {
		return nil, err
	}
	return (*criconfig.IDMapping)(&mapping), nil
}

// usersFile is the name of the record of a pod's user IDs in its directory.
const usersFile = "userns"

// openUsers reads which pods have which user IDs.
func openUsers(dirs poddir.Store, o UserNamespaces) (*userns.Pool, error) {
	return userns.Open(poddir.Records{Store: dirs, Name: usersFile},
		userns.Options{First: o.First, Length: o.Length, Pods: o.Pods})
}

// freeUsers releases a pod's user IDs. IDs that cannot be released stay taken.
func (m *Manager) freeUsers(uid types.UID) {
	if err := m.users.Release(uid); err != nil {
		m.options.Logger.Error(err, "The user IDs of a removed pod stay in use", "podUID", uid)
	}
}

// checkUserNamespaces asks the runtime whether the pod's handler supports user
// namespaces.
func (s *podSync) checkUserNamespaces(ctx context.Context) error {
	status, err := s.m.runtime.Status(ctx, false)
	if err != nil {
		return fmt.Errorf("hostUsers: false: what the runtime can do is unknown: %w", err)
	}
	handlers := status.GetRuntimeHandlers()
	able := slices.ContainsFunc(handlers, func(h *runtimeapi.RuntimeHandler) bool {
		return h.GetName() == s.handler && h.GetFeatures().GetUserNamespaces()
	})
	if !able {
		return fmt.Errorf("hostUsers: false: the runtime's handler %q does not support user namespaces", s.handler)
	}
	if s.pod.Spec.HostNetwork && !status.GetFeatures().GetUserNamespacesHostNetwork() {
		return errors.New("hostUsers: false: the runtime does not support user namespaces for pods on the host network")
	}
	return nil
}

// checkGroups asks the runtime whether it honours supplementalGroupsPolicy Strict, if the pod demands it (spec/runtime.md 3.5). It
// may be an older one than when the pod was admitted.
func (s *podSync) checkGroups(ctx context.Context) error {
	sc := s.pod.Spec.SecurityContext
	if sc == nil || sc.SupplementalGroupsPolicy == nil || *sc.SupplementalGroupsPolicy != v1.SupplementalGroupsPolicyStrict {
		return nil
	}
	status, err := s.m.runtime.Status(ctx, false)
	if err != nil {
		return fmt.Errorf("supplementalGroupsPolicy Strict: what the runtime can do is unknown: %w", err)
	}
	if !status.GetFeatures().GetSupplementalGroupsPolicy() {
		return errors.New("supplementalGroupsPolicy Strict: the runtime does not support it")
	}
	return nil
}

// dns builds the pod's resolver settings. With report it raises events about settings
// that were dropped, once per sandbox.
func (m *Manager) dns(pod *v1.Pod, report bool) (*runtimeapi.DNSConfig, error) {
	in := criconfig.DNSInput{Pod: pod, Cluster: m.options.ClusterDNS, ClusterDomain: m.node.ClusterDomain}
	switch {
	case m.options.NoResolvConf:
		in.Loopback = loopback(m.options.HostIPs())
	case pod.Spec.DNSPolicy != v1.DNSNone:
		var err error
		in.Node, err = criconfig.NodeResolver(m.options.ResolvConf, func(path string) ([]byte, error) {
			return durable.ReadFile(path, maxResolvConf)
		})
		if err != nil {
			return nil, err
		}
	}
	dns := criconfig.DNS(in)
	if !report {
		return dns.Config, nil
	}
	if dns.UnknownPolicy {
		m.options.Logger.Info("The DNS policy is unknown and read as ClusterFirst", "podUID", pod.UID, "policy", pod.Spec.DNSPolicy)
	}
	if dns.MissingCluster {
		m.dnsMissing.Do(func() {
			m.options.Logger.Info("No cluster DNS is configured: pods with the DNS policy ClusterFirst use the node's name servers")
		})
	}
	// ClusterFirst is the API server's default for pods that say nothing: it raises no event.
	if dns.MissingCluster && pod.Spec.DNSPolicy == v1.DNSClusterFirstWithHostNet {
		m.podEvent(pod, v1.EventTypeWarning, "MissingClusterDNS", "No cluster DNS is configured. Falling back to DNS policy Default.")
	}
	for _, e := range dns.Exceeded {
		m.podEvent(pod, v1.EventTypeWarning, "DNSConfigForming", "DNS %s", e)
	}
	return dns.Config, nil
}

// loopback returns the loopback address of each address family that the node has.
func loopback(nodeIPs []string) []string {
	var out []string
	for _, text := range nodeIPs {
		local := "127.0.0.1"
		if ip, err := netip.ParseAddr(text); err == nil && ip.Unmap().Is6() {
			local = "::1"
		}
		if !slices.Contains(out, local) {
			out = append(out, local)
		}
	}
	if len(out) == 0 {
		return []string{"127.0.0.1"}
	}
	return out
}
