package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Reasons of [NodeMatch].
const (
	reasonOS       = "PodOSNotSupported"
	reasonOSLabel  = "PodOSSelectorNodeLabelDoesNotMatch"
	reasonAffinity = "NodeAffinity"
)

// Node is what [NodeMatch] compares pods with. An empty field is not compared.
type Node struct {
	// Name of the node.
	Name string
	// OS and Arch are Go's names, such as linux and arm64.
	OS, Arch string
	// Labels of the node. They override the labels that follow from its name, OS and
	// architecture. If nil, they are unknown, and a pod may ask for any other label.
	Labels map[string]string
}

// NodeMatch refuses a pod that is meant for another node, operating system or
// architecture, as far as its node name, its OS field, its node selector and its required
// node affinity say (FD2). Preferred node affinity is for schedulers.
func NodeMatch(node Node) Handler {
	return HandlerFunc(func(r Request) Verdict {
		spec := &r.Pod.Spec
		selects := func(label string) string { return spec.NodeSelector[label] }
		differs := func(wants, has string) bool { return wants != "" && has != "" && wants != has }
		switch {
		case differs(strings.ToLower(spec.NodeName), strings.ToLower(node.Name)):
			return Refuse(reasonNodeName, "Pod is meant for node %q, this is %q", spec.NodeName, node.Name)
		case spec.OS != nil && differs(string(spec.OS.Name), node.OS):
			return Refuse(reasonOS, "Failed to admit pod as the OS field doesn't match node OS: %q, not %q", spec.OS.Name, node.OS)
		case differs(selects(v1.LabelOSStable), node.labels()[v1.LabelOSStable]):
			return Refuse(reasonOSLabel, "Failed to admit pod as the `%s` label doesn't match node label: %q, not %q",
				v1.LabelOSStable, selects(v1.LabelOSStable), node.labels()[v1.LabelOSStable])
		}
		if why := node.mismatch(spec); why != "" {
			return Refuse(reasonAffinity, "Predicate NodeAffinity failed: %s", why)
		}
		return Verdict{}
	})
}

// labels returns the known labels.
func (n Node) labels() labels.Set {
	out := labels.Set{}
	for label, value := range map[string]string{v1.LabelOSStable: n.OS, v1.LabelArchStable: n.Arch, v1.LabelHostname: n.Name} {
		if value != "" {
			out[label] = value
		}
	}
	maps.Copy(out, n.Labels)
	return out
}

// mismatch says why the node is not one that the pod asks for; "" means that it is.
func (n Node) mismatch(spec *v1.PodSpec) string {
	has := n.labels()
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		value, known := has[key]
		if want := spec.NodeSelector[key]; (known || n.Labels != nil) && (!known || value != want) {
			return fmt.Sprintf("nodeSelector wants %s=%s, the node has %s", key, want, describeLabel(has, key))
		}
	}
	terms := requiredTerms(spec)
	if terms == nil {
		return ""
	}
	var why []string
	for _, term := range terms {
		reason := n.termMismatch(has, term)
		if reason == "" {
			return ""
		}
		why = append(why, reason)
	}
	return "no term of the required node affinity is met: " + strings.Join(why, "; ")
}

func describeLabel(has labels.Set, key string) string {
	if value, ok := has[key]; ok {
		return key + "=" + value
	}
	return "no such label (Config.Node.Labels)"
}

// requiredTerms returns the terms of the pod's required node affinity, nil if it has none.
func requiredTerms(spec *v1.PodSpec) []v1.NodeSelectorTerm {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if terms == nil {
		return []v1.NodeSelectorTerm{{}} // no term can be met
	}
	return terms
}

// termMismatch says why a term is not met; "" means that it is. An empty term is never met.
func (n Node) termMismatch(has labels.Set, term v1.NodeSelectorTerm) string {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return "a term without requirements is never met"
	}
	for _, x := range term.MatchExpressions {
		if _, known := has[x.Key]; !known && n.Labels == nil {
			continue
		}
		if why := unmet(has, x); why != "" {
			return why
		}
	}
	for _, x := range term.MatchFields {
		if why := n.fieldMismatch(x); why != "" {
			return why
		}
	}
	return ""
}

// fieldMismatch says why a requirement on a field of the node is not met; "" means that it is. A
// node's name need not be the value of a label, so it is not compared as one.
func (n Node) fieldMismatch(x v1.NodeSelectorRequirement) string {
	in := x.Operator == v1.NodeSelectorOpIn
	switch {
	case x.Key != "metadata.name":
		return fmt.Sprintf("matchFields knows metadata.name only, not %q", x.Key)
	case !in && x.Operator != v1.NodeSelectorOpNotIn:
		return fmt.Sprintf("matchFields knows the operators In and NotIn only, not %q", x.Operator)
	case n.Name == "" || in == slices.Contains(x.Values, n.Name):
		return ""
	}
	return fmt.Sprintf("%s %s %v is not met, the node is %s", x.Key, x.Operator, x.Values, n.Name)
}

// operators maps the operators of node selectors to those of label selectors.
var operators = map[v1.NodeSelectorOperator]selection.Operator{
	v1.NodeSelectorOpIn: selection.In, v1.NodeSelectorOpNotIn: selection.NotIn,
	v1.NodeSelectorOpExists: selection.Exists, v1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	v1.NodeSelectorOpGt: selection.GreaterThan, v1.NodeSelectorOpLt: selection.LessThan,
}

// unmet says why a requirement is not met; "" means that it is.
func unmet(has labels.Set, x v1.NodeSelectorRequirement) string {
	operator, known := operators[x.Operator]
	if !known {
		return fmt.Sprintf("the operator %q of %s is unknown", x.Operator, x.Key)
	}
	requirement, err := labels.NewRequirement(x.Key, operator, x.Values)
	if err != nil {
		return err.Error()
	}
	if requirement.Matches(has) {
		return ""
	}
	return fmt.Sprintf("%s %s %v is not met, the node has %s", x.Key, x.Operator, x.Values, describeLabel(has, x.Key))
}

// UnknownLabels returns the unknown labels that a pod asks its node for, sorted. It returns
// none if the labels of the node are known.
func (n Node) UnknownLabels(pod *v1.Pod) []string {
	if n.Labels != nil {
		return nil
	}
	has, out := n.labels(), []string{}
	note := func(key string) {
		if _, known := has[key]; !known {
			out = append(out, key)
		}
	}
	for key := range pod.Spec.NodeSelector {
		note(key)
	}
	for _, term := range requiredTerms(&pod.Spec) {
		for _, x := range term.MatchExpressions {
			note(x.Key)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
