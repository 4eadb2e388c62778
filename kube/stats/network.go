package stats

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// traffic is the traffic of an interface. Counters start with the network namespace.
type traffic struct {
	name                                             string
	received, receivedPackets, receiveErrors, rxDrop uint64
	sent, sentPackets, sendErrors, txDrop            uint64
}

// parseTraffic parses a table in the form of /proc/net/dev, without the loopback interface and
// those that lead nowhere.
func parseTraffic(table []byte) (out []traffic) {
	for line := range bytes.Lines(table) {
		name, rest, found := bytes.Cut(line, []byte(":"))
		if !found {
			continue // the header
		}
		fields := bytes.Fields(rest)
		t := traffic{name: string(bytes.TrimSpace(name))}
		if len(fields) < 16 || t.name == "lo" {
			continue
		}
		for i, to := range map[int]*uint64{
			0: &t.received, 1: &t.receivedPackets, 2: &t.receiveErrors, 3: &t.rxDrop,
			8: &t.sent, 9: &t.sentPackets, 10: &t.sendErrors, 11: &t.txDrop,
		} {
			*to, _ = strconv.ParseUint(string(fields[i]), 10, 64)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b traffic) int { return cmp.Compare(a.name, b.name) })
	return out
}

// podEnds are prefixes of interfaces that are the node's ends of pods' interfaces: their traffic is
// shown with the pods, and there is one per pod.
var podEnds = []string{"veth", "docker", "nerdctl", "cali", "lxc"}

// ofNode returns the node's interfaces that belong to no pod.
func ofNode(list []traffic) []traffic {
	return slices.DeleteFunc(list, func(t traffic) bool {
		return slices.ContainsFunc(podEnds, func(prefix string) bool { return strings.HasPrefix(t.name, prefix) })
	})
}

// network shows traffic as a summary does. name is the default interface.
func network(list []traffic, name string, at time.Time) *stats.NetworkStats {
	if len(list) == 0 {
		return nil
	}
	out := &stats.NetworkStats{Time: metav1.NewTime(at)}
	for _, t := range list {
		i := stats.InterfaceStats{
			Name: t.name, RxBytes: pointer(t.received), RxErrors: pointer(t.receiveErrors), TxBytes: pointer(t.sent), TxErrors: pointer(t.sendErrors),
		}
		if t.name == name {
			out.InterfaceStats = i
		}
		out.Interfaces = append(out.Interfaces, i)
	}
	return out
}

// routeUp is the flag of a route that is in use.
const routeUp = 1

// defaultInterface returns the interface of the default route in a table in the form of
// /proc/net/route, empty if there is none.
func defaultInterface(table []byte) (name string) {
	best := uint64(math.MaxUint64)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[1] != "00000000" || fields[7] != "00000000" {
			continue
		}
		flags, err := hex.DecodeString(fields[3])
		if err != nil || len(flags) != 2 || binary.BigEndian.Uint16(flags)&routeUp == 0 {
			continue
		}
		if metric, err := strconv.ParseUint(fields[6], 10, 64); err == nil && metric < best {
			name, best = fields[0], metric
		}
	}
	return name
}

// podInterface is the name that CNI plugins give a pod's interface to the cluster's network.
const podInterface = "eth0"

// podDefault returns the name of a pod's default interface.
func podDefault(list []traffic) string {
	if len(list) > 0 && !slices.ContainsFunc(list, func(t traffic) bool { return t.name == podInterface }) {
		return list[0].name
	}
	return podInterface
}
