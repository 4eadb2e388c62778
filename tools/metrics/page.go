package main

import (
	"fmt"
	"strings"
)

const head = `# Metrics

Every metric of the engine and of module kube, made from the source by ` + "`make metrics`" + `; ` + "`make lint`" + ` fails if the two differ.

- The engine makes OpenTelemetry instruments with the meter provider in ` + "`Config.Observe.MeterProvider`" + ` (API only). Without one nothing is measured.
- Names are as Prometheus shows them with ` + "`otlptranslator.UnderscoreEscapingWithoutSuffixes`" + `, as ` + "`nodeagent`" + ` and ` + "`kubenode`" + ` have it. Other translations add
  suffixes for units and ` + "`_total`" + ` where a name has none.
- **K** marks names that the kubelet has, with the same meaning. Where an engine's values of a label differ, they are those below.
- A label's values follow it if the set is closed, or with "and others" those that are known beforehand. A test's meter refuses every value whose labels are not those of this page.
- A counter whose values of labels are known beforehand begins at 0 when the part that counts is made, so that ` + "`rate`" + ` and ` + "`increase`" + ` see the first event too. Of other values, a series
  appears with its first value. A counter restarts at 0 with the agent.
- ` + "`pod`, `namespace`, `pod_uid` and `container`" + ` are series of the pods that are there; they go with the pod.
`

const tail = `
Beside these, the pages ` + "`/metrics/cadvisor` and `/metrics/resource`" + ` of module kube show what pods use (spec/kube.md), and ` + "`nodeagent` and `kubenode`" + ` add ` + "`go_*` and `process_*`" + `.
[examples/nodeagent/observability](../examples/nodeagent/observability/README.md) has alerts and a dashboard, and shows pods under the names of kube-state-metrics.
`

// page returns the content of docs/metrics.md.
func page(all []made) string {
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "\n%d metrics:\n\n| metric | | type, unit | labels | meaning | made in |\n|---|---|---|---|---|---|\n", len(all))
	for _, m := range all {
		kubelet := ""
		if m.kubelet() {
			kubelet = "**K**"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", m.name, kubelet, m.kind(), m.labelText(), strings.ReplaceAll(m.description, "|", "\\|"), m.dir)
	}
	b.WriteString(tail)
	return b.String()
}

// kubelet reports whether a name is the kubelet's. Podwright's own have a prefix.
func (m made) kubelet() bool { return !strings.HasPrefix(m.name, "podwright_") }

// kind returns the type and the unit.
func (m made) kind() string {
	kind := kinds()[m.method]
	name := strings.TrimSuffix(m.name, "_total")
	switch {
	case m.method == "Durations" || m.method == "ReadSeconds" || m.method == "SecondsCounter" || strings.HasSuffix(name, "_seconds"):
		return kind + ", seconds"
	case strings.HasSuffix(name, "_bytes"):
		return kind + ", bytes"
	}
	return kind
}

func (m made) labelText() string {
	var all []string
	for _, l := range m.labels {
		text := "`" + l.key + "`"
		if len(l.values) > 0 {
			values := make([]string, len(l.values))
			for i, v := range l.values {
				if values[i] = v; v == "" {
					values[i] = `""`
				}
			}
			text += ": " + strings.Join(values, ", ")
			if l.open {
				text += " and others"
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}
