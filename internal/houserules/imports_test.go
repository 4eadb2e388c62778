package houserules

import (
	"slices"
	"strings"
)

// rooms lists what each package of the module may import from the module, besides
// itself, what lies below it, and internal/. The root composes and may import
// everything but examples and tools.
var rooms = map[string][]string{
	"podworkers": {"runtime"},
	// One pod's script: it speaks the words of the rooms it works with.
	"podworkers/podsync": {"podworkers", "runtime", "runtime/cri", "runtime/pods", "status", "probe", "syncloop/admission"},
	"syncloop":           {},
	"pleg":               {"runtime", "runtime/cri"},
	"runtime":            {},
	"runtime/pods":       {"runtime", "runtime/cri"},
	"runtime/cri":        {"runtime"},
	"runtime/process":    {"runtime", "runtime/cri"},
	"runtime/fake":       {"runtime", "runtime/cri"},
	// The fake as a subject of the conformance suite, in process or served.
	"runtime/fake/faketest": {"runtime", "runtime/cri", "runtime/fake", "runtime/runtimetest"},
	// The conformance suite speaks only the interfaces it checks.
	"runtime/runtimetest": {"runtime", "runtime/cri"},
	"status":              {"runtime"},
	"probe":               {"runtime", "runtime/cri"},
	"cleanup":             {"runtime"},
	"cleanup/imagegc":     {},
	"cleanup/eviction":    {},
	// It stands on the whole engine, as a program does, and is one of its sinks.
	"runonce": {"", "status"},
	// A whole node for users' tests: the engine on the fake runtime and a disk in memory.
	"podwrighttest": {
		"", "runtime", "runtime/cri", "runtime/fake", "status", "status/checkpoint", "syncloop", "syncloop/source",
	},
	"internal/inventory":      {"cleanup", "pleg", "podworkers", "runtime"},
	"internal/lifecycle":      {},
	"internal/latency":        {"pleg", "runtime", "runtime/cri"},
	"internal/oomkills":       {"runtime"},
	"internal/podorder":       {"runtime"},
	"internal/restarts":       {"runtime"},
	"internal/tracing":        {"podworkers", "runtime", "runtime/cri"},
	"internal/tale":           {"runtime"},
	"internal/node":           nodeRooms,
	"internal/checkpointtest": {"status/checkpoint"},
	// It speaks the words of each room that writes into the records.
	"internal/recovery": {"podworkers", "runtime", "status", "status/checkpoint", "probe", "syncloop", "syncloop/admission", "syncloop/shutdown"},
}

// nodeRooms are what the node as a whole is made of.
var nodeRooms = []string{
	"cleanup", "cleanup/eviction", "cleanup/imagegc", "pleg", "podworkers", "probe", "runtime", "runtime/cri", "runtime/pods",
	"runtime/pods/containerlog", "syncloop", "syncloop/admission", "syncloop/mirror", "syncloop/nodehooks", "syncloop/preemption", "syncloop/shutdown",
}

// forbidden are modules the library must never depend on.
var forbidden = []string{
	"k8s.io/kubernetes", "k8s.io/client-go", "k8s.io/component-base", "github.com/google/cadvisor",
	"github.com/opencontainers/runc", "github.com/prometheus/client_golang", "go.opentelemetry.io/otel/sdk",
}

func allowedImports(tr *tree, report report) {
	for _, s := range tr.files {
		if s.test || s.room() == "examples" || s.room() == "tools" {
			continue
		}
		if s.room() == "kube" {
			kubeImports(s, report)
			continue
		}
		allowed, room := allowedFor(s.dir)
		for _, imported := range s.imports {
			for _, bad := range forbidden {
				if imported == bad || strings.HasPrefix(imported, bad+"/") {
					report("%s imports %s: never in the library", s.path, imported)
				}
			}
			inner, ok := strings.CutPrefix(imported, module)
			if !ok {
				continue
			}
			inner = strings.TrimPrefix(inner, "/")
			switch {
			case s.dir == ".":
				if within(inner, "examples") || within(inner, "tools") || within(inner, "kube") {
					report("%s imports %s: the root must not know examples, tools or kube", s.path, imported)
				}
			case within(inner, "internal"), within(inner, room), slices.Contains(allowed, inner):
			default:
				report("%s imports %s: rooms meet through interfaces of the consumer; %s may import %v, itself and internal/",
					s.path, imported, room, allowed)
			}
		}
	}
}

// kubeImports: the module kube stands on the whole library and on the client libraries,
// which the library itself must never need.
func kubeImports(s *source, report report) {
	for _, imported := range s.imports {
		if strings.HasPrefix(imported, "k8s.io/kubernetes/") {
			report("%s imports %s: its servers are built for tests, its packages are not used", s.path, imported)
		}
		inner, ok := strings.CutPrefix(imported, module+"/")
		if ok && (within(inner, "examples") || within(inner, "tools")) {
			report("%s imports %s: kube must not know examples or tools", s.path, imported)
		}
	}
}

// allowedFor returns the entry of the innermost room that holds dir; a package
// outside every room may import nothing of the module but itself and internal/.
func allowedFor(dir string) (allowed []string, room string) {
	room = dir
	best := -1
	for r, a := range rooms {
		if within(dir, r) && len(r) > best {
			allowed, room, best = a, r, len(r)
		}
	}
	return allowed, room
}

// withoutCRI are rooms that a program can use without linking gRPC and the CRI's messages, which are more
// than half of a small program. criRooms are those below them that speak the CRI.
var (
	withoutCRI = []string{"podworkers", "runtime", "status", "syncloop", "cleanup"}
	criRooms   = []string{
		"cleanup/imagegc", "podworkers/podsync",
		"runtime/cri", "runtime/fake", "runtime/pods", "runtime/process", "runtime/runtimetest",
	}
)

// someRoomsNeedNoCRI follows the imports of withoutCRI through the module.
func someRoomsNeedNoCRI(tr *tree, report report) {
	imports := map[string][]string{}
	for _, s := range tr.files {
		if !s.test {
			imports[s.dir] = append(imports[s.dir], s.imports...)
		}
	}
	var leadsTo func(dir string, seen map[string]bool) string
	leadsTo = func(dir string, seen map[string]bool) string {
		seen[dir] = true
		for _, imported := range imports[dir] {
			if within(imported, "google.golang.org/grpc") || within(imported, "k8s.io/cri-api") {
				return imported
			}
			inner, ok := strings.CutPrefix(imported, module+"/")
			if !ok || seen[inner] {
				continue
			}
			if end := leadsTo(inner, seen); end != "" {
				return inner + ", " + end
			}
		}
		return ""
	}
	in := func(rooms []string, dir string) bool {
		return slices.ContainsFunc(rooms, func(room string) bool { return within(dir, room) })
	}
	for dir := range imports {
		if !in(withoutCRI, dir) || in(criRooms, dir) {
			continue
		}
		if end := leadsTo(dir, map[string]bool{}); end != "" {
			report("%s needs no CRI, but imports %s", dir, end)
		}
	}
}

// pure lists packages whose decisions are functions over values, and what they
// must not import: nothing that waits, locks, or talks to the outside.
var pure = map[string][]string{
	"podworkers/internal/machine":  {"context", "sync", "net", "os", "io", "k8s.io/utils/clock", "google.golang.org/grpc"},
	"runtime/pods/internal/resize": {"context", "sync", "net", "os", "io", "k8s.io/utils/clock", "google.golang.org/grpc"},
	"internal/restartpolicy":       {"context", "sync", "net", "os", "time"},
	"probe/internal/decide":        {"context", "sync", "net", "os", "io", "k8s.io/utils/clock", "google.golang.org/grpc"},
}

func pureCoresStayPure(tr *tree, report report) {
	for _, s := range tr.files {
		banned, ok := pure[s.dir]
		if !ok || s.test {
			continue
		}
		for _, imported := range s.imports {
			for _, b := range banned {
				if within(imported, b) {
					report("%s imports %s: %s decides over values only", s.path, imported, s.dir)
				}
			}
		}
	}
}

// noWorkplacePaths keeps the paths of the machine a change was written on
// out of the repository.
func noWorkplacePaths(tr *tree, report report) {
	marks := []string{"/wo" + "rk/main", "/wo" + "rk/shared", "../sha" + "red/", "../.lib" + "rary"}
	for _, file := range tr.texts {
		for _, mark := range marks {
			if strings.Contains(file.content, mark) {
				report("%s mentions %s", file.path, mark)
			}
		}
	}
}
