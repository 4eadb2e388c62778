package server

import "net/http"

// statsPage returns the handler of a page of Stats. Each scrape waits for the runtime, so scrapes
// beyond maxScrapes are told to retry.
func (s *Server) statsPage(serve http.HandlerFunc) http.HandlerFunc {
	scrapes := make(chan struct{}, maxScrapes)
	return scrape(func(w http.ResponseWriter, r *http.Request) {
		select {
		case scrapes <- struct{}{}:
			defer func() { <-scrapes }()
			serve(w, r)
		default:
			http.Error(w, "too many scrapes of this page go on; come back later", http.StatusServiceUnavailable)
		}
	})
}
