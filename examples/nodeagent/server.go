package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/status/checkpoint"
)

// openAPI makes the server of the local API and opens its addresses. On a disk that is full
// or read-only the agent runs without its socket, because pods matter more.
func (a *agent) openAPI(ctx context.Context) error {
	handler, err := a.access(a.handler())
	if err != nil {
		return err
	}
	a.server = &http.Server{
		Handler: handler, ConnContext: withPeer, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
	}
	for _, address := range a.options.api.addresses {
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
	return nil
}

// diskFault reports whether the disk, and no mistake, is why a file cannot be made.
func diskFault(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO)
}

// handler answers the local API.
func (a *agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /problems", a.problems)
	mux.HandleFunc("GET /pods", a.pods)
	mux.HandleFunc("GET /explain/{namespace}/{name}", a.explain)
	mux.HandleFunc("GET /cleanup/plan", a.cleanupPlan)
	mux.Handle("GET /metrics", a.metrics.handler)
	return mux
}

// healthz is 200 "ok", or 500 with one reason per line.
func (a *agent) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := a.engine.Healthy(); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintln(w, printableLines(err.Error()))
		return
	}
	fmt.Fprint(w, "ok")
}

// vagueHealthz is healthz for those who may not know the reasons.
func (a *agent) vagueHealthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if a.engine.Healthy() != nil {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "not ok")
		return
	}
	fmt.Fprint(w, "ok")
}

// problems is what waits longer than it should: one line each, or a JSON list if the client
// accepts only that.
func (a *agent) problems(w http.ResponseWriter, r *http.Request) {
	all := a.engine.Problems()
	if r.Header.Get("Accept") == "application/json" {
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

// pods is a v1.PodList with specs and statuses, without what may be secret in the specs.
func (a *agent) pods(w http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		Items:    a.engine.Pods(),
	}
	for i := range list.Items {
		list.Items[i] = *checkpoint.RedactedPod(&list.Items[i])
	}
	a.write(w, http.StatusOK, list)
}

// explain says where one pod stands.
func (a *agent) explain(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	for _, p := range a.engine.Pods() {
		if p.Namespace != namespace || p.Name != name {
			continue
		}
		if explanation, ok := a.engine.Explain(p.UID); ok {
			a.write(w, http.StatusOK, explanation)
			return
		}
	}
	a.write(w, http.StatusNotFound, map[string]string{"error": fmt.Sprintf("no pod %s in namespace %s; GET /pods lists them", name, namespace)})
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
