package podwright

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/internal/optioncheck"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/mirror"
	"github.com/podwright/podwright/syncloop/source"
)

// userOptions are the options of each part that a user may set, by group of Config.
var userOptions = map[string]string{
	"Pods": `ResolvConf NoResolvConf HostsFile SeccompDefault NoCPUQuota CPUQuotaPeriod CgroupDriver CgroupRoot LimitedSwap MemoryQoS
		DefaultSysctls RuntimeClasses UserNamespaces Machine NoManagedMounts MemoryCapacity PostStartTimeout KeepSidecars
		CrashLoopBackOff CrashLoopByExit ImageBackOff MaxParallelImagePulls MaxRuntimeWork ImagePull Objects ObjectRetry Services Projections Grants Volumes SandboxReady
		Cgroups Updater Stats Rand EveryEvent`,
	"Resizes": "StaticCPU StaticMemory Swap",
	"Workers": `SyncFrequency SetupBackOff TerminatingBackOff SetupDeadline TerminatingDeadline
		TerminatedDeadline StuckAfter DrainTimeout TerminateGrace Rand`,
	"PLEG":   "Period QuietPeriod Inspections ListTimeout InspectTimeout WriteOffAfter ConfirmVanished Rand",
	"Loop":   "SourceDeadline HousekeepingPeriod StuckAfter",
	"Status": "Jitter HoldTerminal MaxInFlight SendTimeout History",
	"Probes": `Handler HTTP2 GRPCTLS Timing MinPeriod SubSecondExec FastUntilReady StartSpread NetworkSlots
		ExecSlots PodSlots Rand`,
	"Checkpoints": "Store Keys TrustPlain Reserve",
	"Cleanup":     "Veto Rates CollectPeriod",
	"Mirrors":     "Client Node",
}

// Every option of a part belongs either to the user or to the engine. A new option fails
// this test until it is listed here or in engineFields.
func TestEveryOptionHasOneOwner(t *testing.T) {
	for _, part := range (&Config{}).engineFields() {
		users := strings.Fields(userOptions[part.Group])
		options := reflect.TypeOf(part.Options)
		var names []string
		for i := range options.NumField() {
			name := options.Field(i).Name
			names = append(names, name)
			_, engines := part.Engine[name]
			if users := slices.Contains(users, name); users == engines {
				t.Errorf("%s.%s: user's %v, engine's %v: list it once", part.Group, name, users, engines)
			}
		}
		for name := range part.Engine {
			users = append(users, name)
		}
		for _, name := range append(users, part.Negative...) {
			if !slices.Contains(names, name) {
				t.Errorf("%s.%s is listed, but does not exist", part.Group, name)
			}
		}
		if group, ok := reflect.TypeFor[Config]().FieldByName(part.Group); !ok || group.Type != options {
			t.Errorf("Config has no %s of type %v", part.Group, options)
		}
		for name, instead := range part.Engine {
			if instead != "" && !hasField(reflect.TypeFor[Config](), instead) {
				t.Errorf("%s.%s: Config has no %s to use instead", part.Group, name, instead)
			}
		}
	}
}

// hasField reports whether a struct has the field of a dotted path.
func hasField(t reflect.Type, path string) bool {
	name, rest, nested := strings.Cut(path, ".")
	field, ok := t.FieldByName(name)
	return ok && (!nested || hasField(field.Type, rest))
}

// New refuses an option that the engine sets, and names the field to use.
func TestEngineOptionsAreRefused(t *testing.T) {
	for _, empty := range (&Config{}).engineFields() {
		for name, instead := range empty.Engine {
			var c Config
			field := reflect.ValueOf(&c).Elem().FieldByName(empty.Group).FieldByName(name)
			if !setAnything(field) {
				continue // an interface with several methods; New checks it in the same way
			}
			want := empty.Group + "." + name + " is set by the engine: "
			if instead != "" {
				want += "use " + instead
			}
			if problems := optioncheck.Check(c.engineFields()); len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want) {
				t.Errorf("%s.%s: %v", empty.Group, name, problems)
			}
		}
	}
}

// setAnything gives a field a value that is not its zero value, if it finds one.
func setAnything(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	default:
		return false
	}
	return true
}

// minimalEngine returns an engine on a fake runtime that is not started.
func minimalEngine(t *testing.T) *Engine {
	t.Helper()
	rt := fake.New(fake.Options{})
	e, err := New(Config{
		Runtime: rt, Images: rt, RootDir: t.TempDir(), Node: Node{Name: "n1"},
		Sources: []syncloop.Source{source.NewChannel(source.ChannelOptions{NodeName: "n1"})},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// New reports the problems of Config's own fields together with those that each part finds.
func TestNewReportsProblemsOfAllParts(t *testing.T) {
	rt := fake.New(fake.Options{})
	channel := source.NewChannel(source.ChannelOptions{NodeName: "n1"})
	_, err := New(Config{
		Runtime: rt, Images: rt, RootDir: t.TempDir(), Node: Node{Name: "n1", IPs: []string{"x"}}, Sources: []syncloop.Source{channel, channel},
		PLEG: pleg.Options{QuietPeriod: time.Hour}, Pods: pods.Options{CPUQuotaPeriod: 1}, Probes: probe.Options{MinPeriod: 1},
		Storage: Storage{LogRotation: pods.LogRotation{MaxFiles: 1}}, Admission: Admission{Handlers: []admission.Handler{nil}, Soft: []admission.Handler{nil}},
		Checkpoints: checkpoint.Options{TrustPlain: true},
		Eviction:    &Eviction{Policy: eviction.Policy{Thresholds: []eviction.Threshold{{Signal: "x"}}}},
		ImageGC:     &ImageGC{Policy: imagegc.Policy{HighPercent: 200}}, Mirrors: mirror.Options{Client: struct{ mirror.Client }{}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Node.IPs[0]", "QuietPeriod", "CPUQuotaPeriod", "LogRotation", "MinPeriod", "Admission.Handlers[0]", "Admission.Soft[0]", "Checkpoints.Keys: TrustPlain", "Eviction", "ImageGC", "mirror", "source 1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %s in:\n%v", want, err)
		}
	}
}

// RD1: a RootDir that other users can change is refused before anything in it is used.
func TestNewRefusesARootDirOpenToOthers(t *testing.T) {
	open := t.TempDir()
	for _, dir := range []string{filepath.Dir(open), open} { // t.TempDir gives no other user access to the first
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	rt := fake.New(fake.Options{})
	_, err := New(Config{
		Runtime: rt, Images: rt, RootDir: open, Node: Node{Name: "n1"},
		Sources: []syncloop.Source{source.NewChannel(source.ChannelOptions{NodeName: "n1"})},
	})
	if err == nil || !strings.Contains(err.Error(), "RootDir: ") || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("New: %v", err)
	}
}

// The user's meters read only a running engine. They read neither an engine that New refused,
// whichever part found the problem, nor one that has not started. The user may try again with the
// same meters.
func TestOnlyARunningEngineIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, meter := fake.New(fake.Options{}), &instrumenttest.Meter{}
		config := Config{
			Runtime: rt, Images: rt, RootDir: t.TempDir(), Node: Node{Name: "n1"}, Observe: Observe{MeterProvider: oneMeter{meter: meter}},
			Sources: []syncloop.Source{source.NewChannel(source.ChannelOptions{NodeName: "n1"})},
		}
		wrongField, wrongPart := config, config
		wrongField.Node.IPs = []string{"x"}
		wrongPart.PLEG.QuietPeriod = time.Hour
		for _, wrong := range []Config{wrongField, wrongPart} {
			if _, err := New(wrong); err == nil {
				t.Fatal("no error")
			}
			if read := meter.Read(t.Context()); len(read) > 0 {
				t.Errorf("after a refused configuration: %v", read)
			}
		}
		e, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		if read := meter.Read(t.Context()); len(read) > 0 {
			t.Errorf("before Run: %v", read)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		synctest.Wait()
		read := meter.Read(t.Context())
		for _, name := range []string{
			"podwright_checkpoint_records", "podwright_pod_worker_stuck_calls", "podwright_status_updates_total{result=accepted}", "podwright_pleg_pods",
		} {
			if _, ok := read[name]; !ok {
				t.Errorf("%s is not measured", name)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if read := meter.Read(t.Context()); len(read) > 0 {
			t.Errorf("after Run: %v", read)
		}
	})
}

// oneMeter gives every part the same meter.
type oneMeter struct {
	noop.MeterProvider
	meter *instrumenttest.Meter
}

func (o oneMeter) Meter(string, ...metric.MeterOption) metric.Meter { return o.meter }

// TestPolicyOfNoSource (PS4): a misspelt name would leave the source with another policy, or with
// none.
func TestPolicyOfNoSource(t *testing.T) {
	rt := fake.New(fake.Options{})
	config := Config{
		Runtime: rt, Images: rt, RootDir: t.TempDir(), Node: Node{Name: "n1"},
		Sources:   []syncloop.Source{source.NewChannel(source.ChannelOptions{Name: "tenant", NodeName: "n1"}), source.NewChannel(source.ChannelOptions{NodeName: "n1"})},
		Admission: Admission{Sources: map[string]admission.SourcePolicy{"": {}, "tenant": {}, "channel": {}, "tennant": {}, "file": {}}},
	}
	_, err := New(config)
	if err == nil || strings.Contains(err.Error(), `["tenant"]`) {
		t.Fatal(err)
	}
	for _, want := range []string{`Admission.Sources["file"]`, `Admission.Sources["tennant"]: no source has this name, there are ["tenant" "channel"]`, "AddSource"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not say %s", err, want)
		}
	}
}
