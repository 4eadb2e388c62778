package server

import "net/http"

// configz shows the agent's settings in the kubelet's shape.
func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"kubeletconfig": s.options.Config()})
}
