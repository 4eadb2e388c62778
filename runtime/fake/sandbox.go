package fake

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// sandbox is a pod sandbox. It is guarded by the runtime's lock; config never
// changes.
type sandbox struct {
	id       string
	config   *runtimeapi.PodSandboxConfig
	labelled string // with this pod's UID
	handler  string
	ready    bool
	created  time.Time
	// containers are those not removed, in the order of creation.
	containers []*container
	// ips are the addresses in order; nil on the host network and once
	// stopped.
	ips []netip.Addr
	// item is the sandbox as the latest list showed it. It is shared with callers.
	item *runtimeapi.PodSandbox
}

func (s *sandbox) uid() types.UID { return types.UID(s.config.GetMetadata().GetUid()) }

// hostNetwork reports whether the sandbox shares the node's network.
func (s *sandbox) hostNetwork() bool {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// name is the name that a sandbox reserves while it exists.
func (s *sandbox) name() string { return sandboxName(s.config.GetMetadata()) }

func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return fmt.Sprintf("%s_%s_%s_%d", m.GetName(), m.GetNamespace(), m.GetUid(), m.GetAttempt())
}

// RunPodSandbox makes a ready sandbox. On the pod network it gets the next free
// address of Options.PodIPs.
func (f *Runtime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error) {
	return f.runPodSandbox(ctx, clone(config), runtimeHandler)
}

// runPodSandbox is RunPodSandbox of a config that it may keep.
func (f *Runtime) runPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error) {
	m := config.GetMetadata()
	call := Call{
		Method: RunPodSandbox, PodUID: types.UID(m.GetUid()), Pod: m.GetName(),
		Request: &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: runtimeHandler},
	}
	s, err := do(ctx, f, call, step[*sandbox]{effect: func() (*sandbox, error) {
		if m.GetName() == "" || m.GetNamespace() == "" || m.GetUid() == "" {
			return nil, fmt.Errorf("sandbox metadata %v is incomplete: %w", m, runtime.ErrInvalid)
		}
		name := sandboxName(m)
		if other := f.reserved[name]; other != "" {
			return nil, fmt.Errorf("name %q is reserved for %q: %w", name, other, runtime.ErrAlreadyExists)
		}
		s := &sandbox{config: config, labelled: config.GetLabels()[runtime.LabelPodUID], handler: runtimeHandler, ready: true}
		if !s.hostNetwork() {
			ip, err := f.addresses.take()
			if err != nil {
				return nil, err
			}
			s.ips = []netip.Addr{ip}
		}
		f.nextID++
		s.id, s.created = fmt.Sprintf("sandbox-%d", f.nextID), f.creationTime()
		f.sandboxes.add(s)
		f.reserved[name] = s.id
		f.emit(s, nil, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
		f.emit(s, nil, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
		return s, nil
	}})
	if err != nil {
		return "", err
	}
	return s.id, nil
}

// StopPodSandbox kills every container of the sandbox, releases its addresses and
// makes it not ready.
func (f *Runtime) StopPodSandbox(ctx context.Context, podSandboxID string) error {
	call := Call{
		Method: StopPodSandbox, SandboxID: podSandboxID,
		Request: &runtimeapi.StopPodSandboxRequest{PodSandboxId: podSandboxID},
	}
	_, err := do(ctx, f, call, step[struct{}]{effect: func() (struct{}, error) {
		if s := f.sandboxes.byID[podSandboxID]; s != nil {
			f.stopSandbox(s)
		}
		return struct{}{}, nil
	}})
	return err
}

// stopSandbox makes a sandbox not ready. The lock must be held.
func (f *Runtime) stopSandbox(s *sandbox) {
	for _, c := range s.containers {
		f.kill(c)
	}
	if !s.ready {
		return
	}
	s.ready = false
	f.addresses.release(s.ips)
	s.ips = nil
	f.emit(s, nil, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// RemovePodSandbox stops the sandbox and removes it with its containers.
func (f *Runtime) RemovePodSandbox(ctx context.Context, podSandboxID string) error {
	call := Call{
		Method: RemovePodSandbox, SandboxID: podSandboxID,
		Request: &runtimeapi.RemovePodSandboxRequest{PodSandboxId: podSandboxID},
	}
	_, err := do(ctx, f, call, step[struct{}]{effect: func() (struct{}, error) {
		s := f.sandboxes.byID[podSandboxID]
		if s == nil {
			return struct{}{}, nil
		}
		f.stopSandbox(s)
		for _, c := range slices.Clone(s.containers) {
			f.removeContainer(c)
		}
		f.sandboxes.remove(s)
		delete(f.reserved, s.name())
		f.emit(s, nil, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
		return struct{}{}, nil
	}})
	return err
}

// PodSandboxStatus returns a sandbox's status.
func (f *Runtime) PodSandboxStatus(ctx context.Context, podSandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	call := Call{
		Method: PodSandboxStatus, SandboxID: podSandboxID,
		Request: &runtimeapi.PodSandboxStatusRequest{PodSandboxId: podSandboxID, Verbose: verbose},
	}
	return do(ctx, f, call, step[*runtimeapi.PodSandboxStatusResponse]{effect: func() (*runtimeapi.PodSandboxStatusResponse, error) {
		s := f.sandboxes.byID[podSandboxID]
		if s == nil {
			return nil, fmt.Errorf("sandbox %q: %w", podSandboxID, runtime.ErrNotFound)
		}
		return &runtimeapi.PodSandboxStatusResponse{Status: f.sandboxStatus(s)}, nil
	}})
}

// sandboxStatus builds a status that is not shared. The lock must be held.
func (f *Runtime) sandboxStatus(s *sandbox) *runtimeapi.PodSandboxStatus {
	status := &runtimeapi.PodSandboxStatus{
		Id:             s.id,
		Metadata:       copySandboxMetadata(s.config.GetMetadata()),
		State:          s.state(),
		CreatedAt:      s.created.UnixNano(),
		Network:        &runtimeapi.PodSandboxNetworkStatus{},
		Labels:         maps.Clone(s.config.GetLabels()),
		Annotations:    maps.Clone(s.config.GetAnnotations()),
		RuntimeHandler: s.handler,
	}
	for i, ip := range s.ips {
		if i == 0 {
			status.Network.Ip = ip.String()
			continue
		}
		status.Network.AdditionalIps = append(status.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip.String()})
	}
	if options := s.config.GetLinux().GetSecurityContext().GetNamespaceOptions(); options != nil {
		status.Linux = &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: clone(options)}}
	}
	return status
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// ListPodSandbox returns the sandboxes that match filter, oldest first. With a nil filter, an unchanged sandbox
// is the same object as in the previous list: do not modify it.
func (f *Runtime) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	filter = clone(filter)
	call := Call{
		Method: ListPodSandbox, SandboxID: filter.GetId(),
		Request: &runtimeapi.ListPodSandboxRequest{Filter: filter},
	}
	return do(ctx, f, call, step[[]*runtimeapi.PodSandbox]{
		effect: func() ([]*runtimeapi.PodSandbox, error) {
			listed := f.sandboxes.all
			if uid, one := filter.GetLabelSelector()[runtime.LabelPodUID]; one {
				listed = f.sandboxes.ofPod[uid]
			}
			list := make([]*runtimeapi.PodSandbox, 0, len(listed))
			for _, s := range listed {
				switch {
				case filter == nil:
					list = append(list, s.sharedItem())
				case filter.GetId() != "" && filter.GetId() != s.id,
					filter.GetState() != nil && filter.GetState().GetState() != s.state(),
					!selects(filter.GetLabelSelector(), s.config.GetLabels()):
				default:
					list = append(list, clone(s.sharedItem()))
				}
			}
			return list, nil
		},
		filter: keepByID[*runtimeapi.PodSandbox],
	})
}

// sharedItem is like the method of a container.
func (s *sandbox) sharedItem() *runtimeapi.PodSandbox {
	if s.item == nil || s.item.State != s.state() {
		s.item = &runtimeapi.PodSandbox{
			Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created.UnixNano(), RuntimeHandler: s.handler,
			Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(),
		}
	}
	return s.item
}

// selects reports whether labels carry everything the selector asks for.
func selects(selector, labels map[string]string) bool {
	for key, want := range selector {
		if got, ok := labels[key]; !ok || got != want {
			return false
		}
	}
	return true
}

// keepByID filters a list by its items' IDs.
func keepByID[T interface{ GetId() string }](list []T, keep func(id string) bool) []T {
	return slices.DeleteFunc(list, func(item T) bool { return !keep(item.GetId()) })
}

// addressPool gives out pod addresses in order, lowest free one first.
type addressPool struct {
	prefix netip.Prefix
	used   map[netip.Addr]bool
	// low is at or below the lowest free address; invalid means the first.
	low netip.Addr
}

// take returns a free address.
func (p *addressPool) take() (netip.Addr, error) {
	if !p.low.IsValid() {
		p.low = p.prefix.Addr().Next()
	}
	for ip := p.low; p.prefix.Contains(ip); ip = ip.Next() {
		if !p.used[ip] {
			p.used[ip] = true
			p.low = ip.Next()
			return ip, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no free address in %s: %w", p.prefix, runtime.ErrExhausted)
}

// release gives addresses back.
func (p *addressPool) release(ips []netip.Addr) {
	for _, ip := range ips {
		delete(p.used, ip)
		if p.low.IsValid() && p.prefix.Contains(ip) && ip.Less(p.low) {
			p.low = ip
		}
	}
}

// clear makes every address free.
func (p *addressPool) clear() {
	clear(p.used)
	p.low = netip.Addr{}
}
