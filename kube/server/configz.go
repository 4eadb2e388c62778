package server

import (
	"encoding/json"
	"net/http"
)

// configz shows the agent's settings in the kubelet's shape.
func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	data, err := json.Marshal(map[string]any{"kubeletconfig": s.options.Config()})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
