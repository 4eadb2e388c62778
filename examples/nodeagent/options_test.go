package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright/runtime/process"
)

// TestHelp: the help names the commands, that of run the flags; a mistake is told in one line.
func TestHelp(t *testing.T) {
	for line, wants := range map[string][]string{
		"--help":             {"nodeagent run --manifests DIR", "checkpoint ", "explain ", "problems ", "completion ", "Exit codes"},
		"run --help":         {"/explain/NAMESPACE/NAME", "--manifests string", "--listen ADDRESS", "--drain"},
		"checkpoint --help":  {"show ", "--record-key-file"},
		"completion bash":    {"nodeagent"},
		"pods --help":        {"Aliases:", "--watch", "--root"},
		"cleanup -h":         {"--plan", "table, json, yaml (default: table)"},
		"exec -h":            {"\n  nodeagent exec POD [-c CONTAINER] [-i] [-t] [flags] -- COMMAND [ARGUMENT...]\n"}, // flags after -- are the command's
		"completion -h":      {"\n  nodeagent completion [command]\n", "bash "},
		"completion bash -h": {"\n  nodeagent completion bash\n"},
		"help -h":            {"\n  nodeagent help [command] [flags]\n"},
	} {
		var help, mistakes bytes.Buffer
		if code := run(strings.Fields(line), process.Supervisor{}, &help, &mistakes); code != 0 || mistakes.String() != "" {
			t.Errorf("%s: ends with %d, %s", line, code, &mistakes)
		}
		for _, want := range wants {
			if !strings.Contains(help.String(), want) {
				t.Errorf("%s: the help lacks %q:\n%s", line, want, &help)
			}
		}
		if strings.Contains(help.String(), "[flags of run]") != (line == "--help") {
			t.Errorf("%s: the flags of run belong to nodeagent alone:\n%s", line, &help)
		}
	}
	for line, want := range map[string]string{
		"--manifest x":       "nodeagent: unknown flag: --manifest; see nodeagent --help\n",
		"run --manifest x":   "nodeagent: unknown flag: --manifest; see nodeagent run --help\n",
		"pod s --namespac x": "nodeagent: unknown flag: --namespac; see nodeagent pods --help\n",
		"explan":             "nodeagent: there is no command \"explan\"; did you mean \"explain\"?; see nodeagent --help\n",
		"explain":            "nodeagent: want one pod; see nodeagent explain --help\n",
		"explain a/":         "nodeagent: \"a/\" is no pod: want NAME or NAMESPACE/NAME\n",
		"pods -o xml":        "nodeagent: --output \"xml\": want wide or json or yaml or name\n",
		"pods -w -o yaml":    "nodeagent: --watch and -o yaml do not go together; use -o json\n",
		"run somewhere":      "nodeagent: want no arguments, got [\"somewhere\"]; see nodeagent run --help\n",
	} {
		var out, mistake bytes.Buffer
		if code := run(strings.Fields(line), process.Supervisor{}, &out, &mistake); code != 2 || mistake.String() != want || out.Len() > 0 {
			t.Errorf("%s: code %d, %q, want %q", line, code, &mistake, want)
		}
	}
}

// TestEventsInTheLog: an event names the pod, its container, or the node.
func TestEventsInTheLog(t *testing.T) {
	for want, object := range map[string]apiruntime.Object{
		"pod=default/web":   &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}},
		"pod=default/web o": &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web", FieldPath: "spec.containers{main}"},
		"node=edge-1":       &v1.ObjectReference{Kind: "Node", Name: "edge-1"},
	} {
		var line bytes.Buffer
		recorder{slog.New(slog.NewTextHandler(&line, nil)), &eventLog{}}.Eventf(object, v1.EventTypeWarning, "Why", "n is %d", 3)
		for _, want := range []string{"level=WARN", `msg="n is 3"`, "reason=Why", want} {
			if !strings.Contains(line.String(), want) {
				t.Errorf("%q lacks %q", &line, want)
			}
		}
	}
}

// parse reads a command line of run.
func parse(args []string) (options, error) {
	var o options
	flags := pflag.NewFlagSet("nodeagent", pflag.ContinueOnError)
	o.register(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	return o, o.complete(flags)
}

// TestNodeName: the name is in lower case, as the kubelet has it; one that no node can have is a mistake in the flag that names it.
func TestNodeName(t *testing.T) {
	for name, good := range map[string]bool{"edge-1.example": true, "Edge1": true, "edge_1": false, "-": false} {
		o, err := parse([]string{"--manifests", t.TempDir(), "--root", t.TempDir(), "--node-name", name})
		if (err == nil) != good || err != nil && !strings.HasPrefix(err.Error(), fmt.Sprintf("--node-name %q: ", name)) || o.nodeName != strings.ToLower(name) {
			t.Errorf("%s: %q, %v", name, o.nodeName, err)
		}
	}
}
