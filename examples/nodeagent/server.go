package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/status/checkpoint"
)

// requestTimeout is how long a request may take to arrive, also at an agent that gets no processor for a while: its client
// would learn no more than that the connection was closed.
const requestTimeout = 30 * time.Second

// maxHeader bounds the head of a request, which holds the command of an exec.
const maxHeader = 64 << 10

// openAPI creates the server of the local API and opens its addresses. On a full or read-only disk
// the agent runs without its socket, because pods matter more.
func (a *agent) openAPI(ctx context.Context) error {
	handler, err := a.access(a.handler())
	noToken := diskFault(err)
	if noToken {
		a.log.Error("No local API over TCP: its token cannot be made; end the agent and start it again when there is space", "error", err.Error())
	} else if err != nil {
		return err
	}
	a.over, a.endStreams = context.WithCancel(context.WithoutCancel(ctx))
	a.streams = newSlots(maxStreams, "too many clients watch, follow or run commands already; end one of them")
	a.orders = newSlots(maxOrders, "too many orders are being carried out already; wait for one of them")
	a.draining = newSlots(maxDrains, "the drain has begun, and too many clients wait for it already")
	a.server = &http.Server{
		Handler: versioned(handler), ConnContext: withPeer, ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout,
		WriteTimeout: sendTimeout, MaxHeaderBytes: maxHeader,
	}
	for _, address := range a.options.api.addresses {
		if address.tcp != "" && noToken {
			continue
		}
		l, err := address.listen(ctx)
		if address.socket != "" && diskFault(err) {
			a.log.Error("No local API: its socket cannot be made; end the agent and start it again when there is space, or with --listen unix:PATH elsewhere", "error", err.Error())
			continue
		}
		if err != nil {
			return errors.Join(err, closeAll(a.listeners))
		}
		a.listeners = append(a.listeners, l)
	}
	if exposed := a.options.api.exposed(); len(exposed) > 0 {
		a.log.Warn("The local API is open to other machines and not encrypted: whoever can read the traffic learns the token", "listen", exposed)
	}
	if err := a.openPage(ctx); err != nil {
		return errors.Join(err, closeAll(a.listeners))
	}
	return nil
}

// diskFault reports whether the disk, rather than a mistake, is why a file cannot be created.
func diskFault(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO)
}

// handler returns the handler of the local API.
func (a *agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /version", a.version)
	mux.HandleFunc("GET /problems", a.problems)
	mux.HandleFunc("GET /pods", a.pods)
	mux.HandleFunc("GET /explain/{namespace}/{name}", a.explain)
	mux.HandleFunc("GET /events", a.events)
	mux.HandleFunc("GET /logs/{namespace}/{name}", a.containerLog)
	mux.HandleFunc("GET /logs/{namespace}/{name}/{container}", a.containerLog)
	mux.HandleFunc("GET /exec/{namespace}/{name}", a.exec)
	mux.HandleFunc("GET /exec/{namespace}/{name}/{container}", a.exec)
	mux.HandleFunc("POST /restart/{namespace}/{name}", a.restart)
	mux.HandleFunc("POST /evict/{namespace}/{name}", a.evict)
	mux.HandleFunc("POST /drain", a.drain)
	mux.HandleFunc("GET /cleanup/plan", a.cleanupPlan)
	mux.HandleFunc("GET /web", a.link)
	mux.Handle("GET /metrics", a.metrics.handler)
	mux.HandleFunc("/", a.unknown)
	return mux
}

// unknown answers requests that only another version of the agent may know, in the form of the API's errors.
func (a *agent) unknown(w http.ResponseWriter, r *http.Request) {
	a.fail(w, http.StatusNotImplemented, fmt.Errorf("this agent, with version %d of the API, knows no %s %s: what asks is newer, or means another path", apiVersion, r.Method, r.URL.Path))
}

// versioned adds the version of the API to every answer.
func versioned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(versionHeader, strconv.Itoa(apiVersion))
		next.ServeHTTP(w, r)
	})
}

// about says what runs here.
type about struct {
	API     int       `json:"api"`
	Version string    `json:"version"`
	Go      string    `json:"go"`
	PID     int       `json:"pid"`
	Node    string    `json:"node"`
	Runtime string    `json:"runtime"`
	Root    string    `json:"root"`
	Started time.Time `json:"started"`
}

func (a *agent) version(w http.ResponseWriter, _ *http.Request) {
	version, goVersion := build()
	a.write(w, http.StatusOK, about{
		API: apiVersion, Version: version, Go: goVersion, PID: os.Getpid(),
		Node: a.options.nodeName, Runtime: a.options.runtime, Root: a.options.root, Started: a.started,
	})
}

// healthz answers 200 "ok", or 500 with one reason per line.
func (a *agent) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := a.engine.Healthy(); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintln(w, printableLines(err.Error()))
		return
	}
	fmt.Fprint(w, "ok")
}

// vagueHealthz is healthz for clients that may not know the reasons.
func (a *agent) vagueHealthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if a.engine.Healthy() != nil {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "not ok")
		return
	}
	fmt.Fprint(w, "ok")
}

// problems answers with what waits longer than it should: one line each, or a JSON list if the
// client accepts only that.
func (a *agent) problems(w http.ResponseWriter, r *http.Request) {
	all := a.engine.Problems()
	if r.Header.Get("Accept") == "application/json" || r.FormValue("o") == "json" {
		if all == nil {
			all = []podwright.Problem{} // an empty list, not null
		}
		a.write(w, http.StatusOK, all)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, p := range all {
		fmt.Fprintln(w, printable(p.String()))
	}
	if len(all) == 0 {
		fmt.Fprintln(w, "no problems")
	}
}

// pods answers with a v1.PodList of specs and statuses, without anything in the specs that may be secret.
func (a *agent) pods(w http.ResponseWriter, r *http.Request) {
	if watch, err := strconv.ParseBool(cmp.Or(r.FormValue("watch"), "false")); err == nil && watch {
		a.watchPods(w, r)
		return
	}
	list := v1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		Items:    a.engine.Pods(),
	}
	for i := range list.Items {
		list.Items[i] = *checkpoint.RedactedPod(&list.Items[i])
	}
	a.write(w, http.StatusOK, list)
}

// explain says where one pod stands, as JSON or, with ?o=text, in words.
func (a *agent) explain(w http.ResponseWriter, r *http.Request) {
	pod, err := a.named(r)
	if err != nil {
		a.failure(w, err)
		return
	}
	explanation, known := a.engine.Explain(pod.UID)
	switch {
	case !known: // it has been removed meanwhile
		a.failure(w, refusal{http.StatusNotFound, missing(nil, pod.Namespace, pod.Name).Error()})
	case r.FormValue("o") == "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, strings.Join(explainLines(&explanation, pod, time.Now()), "\n")+"\n")
	default:
		a.write(w, http.StatusOK, explanation)
	}
}

// named returns the pod that the path names, in the way of findPods.
func (a *agent) named(r *http.Request) (*v1.Pod, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	if pod, ok := a.engine.PodNamed(namespace, name); ok { // the fast path: no search through all pods
		return pod, nil
	}
	pods := a.engine.Pods()
	found := findPods(pods, namespace, name)
	if len(found) == 0 {
		return nil, refusal{http.StatusNotFound, missing(pods, namespace, name).Error()}
	}
	if err := ambiguous(name, found); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	if pod, ok := a.engine.PodNamed(found[0].Namespace, found[0].Name); ok && len(found) > 1 {
		return pod, nil // the current life of several
	}
	return found[0], nil
}

// refusal is an error with the status code of its answer.
type refusal struct {
	code int
	text string
}

func (r refusal) Error() string { return r.text }

// failure answers with an error.
func (a *agent) failure(w http.ResponseWriter, err error) {
	code, text := statusOf(err)
	a.fail(w, code, errors.New(text))
}

// statusOf returns the status code of an error, which follows from a refusal or from the runtime's error
// classes, and its text for users.
func statusOf(err error) (code int, text string) {
	code, class := http.StatusInternalServerError, cri.Class(err)
	if r, ok := errors.AsType[refusal](err); ok {
		code = r.code
	} else {
		switch class {
		case runtime.ErrNotFound:
			code = http.StatusNotFound
		case runtime.ErrInvalid:
			code = http.StatusBadRequest
		case runtime.ErrFailedPrecondition:
			code = http.StatusConflict
		case runtime.ErrExhausted:
			code = http.StatusTooManyRequests
		case runtime.ErrUnimplemented:
			code = http.StatusNotImplemented
		}
	}
	text = err.Error()
	if class != nil { // the class name is for programs
		text = strings.TrimSuffix(text, ": "+class.Error())
	}
	return code, text
}

func (a *agent) fail(w http.ResponseWriter, code int, err error) {
	a.write(w, code, map[string]string{"error": err.Error()})
}

func (a *agent) write(w http.ResponseWriter, code int, body any) {
	text, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if _, err := w.Write(append(text, '\n')); err != nil {
		a.log.Debug("HTTP client went away", "error", err.Error())
	}
}
