package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// options are the options of run.
type options struct {
	config  string
	sources sourceOptions
	objects string
	runtime string
	// processAsRoot allows root to use the process runtime.
	processAsRoot bool
	root          string
	api           apiOptions
	web           webOptions
	statuses      string
	nodeName      string
	drain         bool
	podCgroup     string
	images        imageOptions
	dead          deadOptions
	eviction      evictionOptions
	maxPods       int
	runtimeWork   int // see [podwright.Config]'s Pods.MaxRuntimeWork
	seccomp       bool
	logs          logOptions
	keys          keyOptions
	outbound      outboundOptions
	once          onceOptions
	validate      string
	logLevelText  string
	logLevel      slog.Level
	logFormat     string
}

// defaultMaxPods is the kubelet's default.
const defaultMaxPods = 110

// register declares the flags of run.
func (o *options) register(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&o.config, "config", os.Getenv(configVariable), "YAML file with these settings, whose fields are the names of the flags; no other user may be able to change it")
	o.sources.register(flags)
	flags.StringVar(&o.objects, "objects", "", "folder of ConfigMap and Secret manifests that pods may refer to, closed to others (mode 700, files 600); changes reach running pods (default: there are none)")
	flags.StringVar(&o.runtime, "runtime", "process", `where containers run: "process" (plain processes of this machine), or the CRI socket of a runtime, such as unix:///run/containerd/containerd.sock`)
	flags.BoolVar(&o.processAsRoot, "process-as-root", false, "as root, run the programs of pods as root on this machine, in no container (with --runtime process)")
	flags.StringVar(&o.root, "root", defaultRoot(), "folder for volumes, logs and records")
	o.api.register(flags)
	o.web.register(flags)
	flags.StringVar(&o.statuses, "statuses", "", "file to append every change of a pod's status to, as JSON lines (default: none)")
	flags.StringVar(&o.nodeName, "node-name", "", "name of this node, in lower case (default: the host name)")
	flags.BoolVar(&o.drain, "drain", false, "stop all pods before ending; what is left of pods that an unreadable manifest may describe is kept, with a warning")
	o.logs.register(flags)
	flags.StringVar(&o.podCgroup, "pod-cgroups", "", "give each pod a cgroup of its own below this one, such as kubepods; needs a CRI runtime with the cgroupfs driver, and root (default: none)")
	o.images.register(flags)
	o.dead.register(flags)
	o.eviction.register(flags)
	o.keys.register(flags, true)
	o.outbound.register(flags)
	o.once.register(flags)
	flags.IntVar(&o.maxPods, "max-pods", defaultMaxPods, "how many pods may run; those above it are refused; 0 means no limit")
	flags.BoolVar(&o.seccomp, "seccomp-default", true, "give containers without a seccomp profile the runtime's own; without it they may use every system call; means nothing to plain processes")
	flags.StringVar(&o.validate, "validate", "", "check the pod manifests of this `folder`, or this one, say what is wrong by file, line and field, and end: with code 1 if something is; nothing is started")
	flags.StringVar(&o.logLevelText, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&o.logFormat, "log-format", "text", "text or json")
}

// complete adds what the file of --config says, checks everything, and fills in what depends on the
// machine.
func (o *options) complete(flags *pflag.FlagSet) error {
	if err := readConfigFile(flags, o.config); err != nil {
		return err
	}
	var problems []error
	o.sources.validate(o.validate)
	if o.objects != "" {
		if info, err := os.Stat(o.objects); err != nil {
			problems = append(problems, fmt.Errorf("--objects: %w", err))
		} else if !info.IsDir() {
			problems = append(problems, fmt.Errorf("--objects %s is not a folder", o.objects))
		}
	}
	if err := o.logLevel.UnmarshalText([]byte(o.logLevelText)); err != nil {
		problems = append(problems, fmt.Errorf("--log-level %q: want debug, info, warn or error", o.logLevelText))
	}
	if o.podCgroup != "" && o.runtime == "process" {
		problems = append(problems, errors.New("--pod-cgroups needs a CRI runtime: plain processes are in no cgroup of their pod"))
	}
	if o.logFormat != "text" && o.logFormat != "json" {
		problems = append(problems, fmt.Errorf("--log-format %q: want text or json", o.logFormat))
	}
	if o.maxPods < 0 {
		problems = append(problems, fmt.Errorf("--max-pods %d: want a number of pods, or 0 for no limit", o.maxPods))
	}
	problems = append(problems, o.sources.complete(), o.logs.complete(), o.images.complete(o.runtime), o.dead.complete(), o.eviction.complete(), o.keys.complete(), o.outbound.complete(o.runtime), o.once.complete())
	if o.nodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			problems = append(problems, fmt.Errorf("the host name cannot be read, set --node-name: %w", err))
		}
		o.nodeName = name
	}
	for _, message := range validation.IsDNS1123Subdomain(strings.ToLower(o.nodeName)) {
		problems = append(problems, fmt.Errorf("--node-name %q: %s", o.nodeName, message))
	}
	o.nodeName = strings.ToLower(o.nodeName) // as the kubelet does
	if o.root == "" {
		problems = append(problems, errors.New("--root is required: there is no home folder to keep state in"))
	} else if abs, err := filepath.Abs(o.root); err != nil {
		problems = append(problems, fmt.Errorf("--root: %w", err))
	} else {
		o.root = abs
	}
	problems = append(problems, o.web.complete(), o.api.complete(o.root, o.web.address != ""))
	return errors.Join(problems...)
}

// defaultRoot returns the user's state folder by the XDG rules, or "".
func defaultRoot() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "podwright")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "podwright")
}
