package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
)

// handler answers the HTTP endpoint.
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
		fmt.Fprintln(w, err)
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
		fmt.Fprintln(w, p)
	}
	if len(all) == 0 {
		fmt.Fprintln(w, "no problems")
	}
}

// pods is a v1.PodList with specs and statuses.
func (a *agent) pods(w http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		Items:    a.engine.Pods(),
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
