package stats

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// at converts the runtime's nanoseconds to a time.
func at(nanoseconds int64) metav1.Time { return metav1.NewTime(time.Unix(0, nanoseconds)) }

// value is nil if the runtime reports nothing.
func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return pointer(v.GetValue())
}

// cpuOf is nil unless the runtime reports CPU time, which it does not for a container that has ended.
func cpuOf(u *runtimeapi.CpuUsage) *stats.CPUStats {
	if u.GetUsageCoreNanoSeconds() == nil {
		return nil
	}
	return &stats.CPUStats{
		Time: at(u.GetTimestamp()), UsageCoreNanoSeconds: value(u.GetUsageCoreNanoSeconds()),
		UsageNanoCores: value(u.GetUsageNanoCores()), PSI: psiOf(u.GetPsi()),
	}
}

// memoryOf is nil unless the runtime reports the working set.
func memoryOf(u *runtimeapi.MemoryUsage) *stats.MemoryStats {
	if u.GetWorkingSetBytes() == nil {
		return nil
	}
	return &stats.MemoryStats{
		Time: at(u.GetTimestamp()), AvailableBytes: value(u.GetAvailableBytes()), UsageBytes: value(u.GetUsageBytes()),
		WorkingSetBytes: value(u.GetWorkingSetBytes()), RSSBytes: value(u.GetRssBytes()),
		PageFaults: value(u.GetPageFaults()), MajorPageFaults: value(u.GetMajorPageFaults()), PSI: psiOf(u.GetPsi()),
	}
}

func swapOf(u *runtimeapi.SwapUsage) *stats.SwapStats {
	if u.GetSwapUsageBytes() == nil {
		return nil
	}
	return &stats.SwapStats{Time: at(u.GetTimestamp()), SwapAvailableBytes: value(u.GetSwapAvailableBytes()), SwapUsageBytes: value(u.GetSwapUsageBytes())}
}

func ioOf(u *runtimeapi.IoUsage) *stats.IOStats {
	if u.GetPsi() == nil {
		return nil
	}
	return &stats.IOStats{Time: at(u.GetTimestamp()), PSI: psiOf(u.GetPsi())}
}

func psiOf(p *runtimeapi.PsiStats) *stats.PSIStats {
	if p == nil {
		return nil
	}
	data := func(d *runtimeapi.PsiData) stats.PSIData {
		return stats.PSIData{Total: d.GetTotal(), Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300()}
	}
	return &stats.PSIStats{Full: data(p.GetFull()), Some: data(p.GetSome())}
}

func networkOf(n *runtimeapi.NetworkUsage) *stats.NetworkStats {
	one := func(i *runtimeapi.NetworkInterfaceUsage) stats.InterfaceStats {
		return stats.InterfaceStats{
			Name: i.GetName(), RxBytes: value(i.GetRxBytes()), RxErrors: value(i.GetRxErrors()),
			TxBytes: value(i.GetTxBytes()), TxErrors: value(i.GetTxErrors()),
		}
	}
	out := &stats.NetworkStats{Time: at(n.GetTimestamp()), InterfaceStats: one(n.GetDefaultInterface())}
	out.Interfaces = append(out.Interfaces, out.InterfaceStats)
	for _, i := range n.GetInterfaces() {
		if i.GetName() != out.Name {
			out.Interfaces = append(out.Interfaces, one(i))
		}
	}
	return out
}
