package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// maxPageStreams is how many answers without an end all pages together may have. It is well below
// maxStreams, to leave room for commands.
const maxPageStreams = 24

// pagePolicy lets the page use what the agent serves, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed web/index.html web/page.css web/page.js web/timeline.js web/usage.js web/icon.svg
var pageFiles embed.FS

// webPage serves the page for browsers, on its own listener and server, so that failures there do
// not affect the local API.
type webPage struct {
	*agent
	secret   string // opens the page
	token    token  // the same
	listener net.Listener
	server   *http.Server
	places   chan struct{} // one slot for each answer without an end
	feed     stateFeed
}

// openPage opens the address of --web. On a full or read-only disk there is no page.
func (a *agent) openPage(ctx context.Context) error {
	if a.options.web.address == "" {
		return nil
	}
	secret, err := pageSecret(a.options.api.tokenFile, a.options.api.madeToken)
	if diskFault(err) {
		a.log.Error("No page for browsers: its token cannot be made", "error", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.options.web.address)
	if err != nil {
		return fmt.Errorf("--web: %w", err)
	}
	if a.options.web.exposed() {
		a.log.Warn("The page is open to other machines and not encrypted: whoever can read the traffic learns its token", "web", a.options.web.address)
	}
	p := &webPage{agent: a, secret: secret, token: tokenOf(secret), listener: newFewListener(l, maxConnections), places: make(chan struct{}, maxPageStreams)}
	p.feed.state = p.state
	p.server = &http.Server{
		Handler: p.guarded(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, MaxHeaderBytes: maxHeader,
	}
	a.page = p
	return nil
}

// pageSecret derives the page's token from the local API's token: it opens only the page, and stays
// the same when the agent restarts.
func pageSecret(path string, create bool) (string, error) {
	if _, err := openToken(path, create); err != nil {
		return "", err
	}
	text, err := readToken(path)
	if err != nil {
		return "", fmt.Errorf("--listen-token-file: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(text))
	mac.Write([]byte("nodeagent --web"))
	return hex.EncodeToString(mac.Sum(nil)[:20]), nil
}

// link returns the link that opens the page. What follows # is not sent over the network.
func (p *webPage) link() string {
	host := p.options.web.host()
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	_, port, _ := net.SplitHostPort(p.listener.Addr().String()) // a TCP address always has a port
	return "http://" + net.JoinHostPort(host, port) + "/#token=" + p.secret
}

// guarded returns the handler of the page's server: it serves files to any client that names the
// agent, data only with the token.
func (p *webPage) guarded() http.Handler {
	data := http.NewServeMux()
	data.HandleFunc("GET /api/state", p.place(p.watchState))
	data.HandleFunc("GET /api/pods/{namespace}/{name}", p.pod)
	data.HandleFunc("GET /api/logs/{namespace}/{name}/{container}", p.place(p.containerLog))
	data.HandleFunc("GET /api/usage/{namespace}/{name}", p.usage)
	data.HandleFunc("GET /api/cleanup", p.cleanupPlan)
	all := http.NewServeMux()
	all.Handle("/api/", p.withToken(data))
	for path, file := range map[string]string{"/{$}": "index.html", "/page.css": "page.css", "/page.js": "page.js", "/timeline.js": "timeline.js", "/usage.js": "usage.js", "/icon.svg": "icon.svg"} {
		all.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, pageFiles, "web/"+file)
		})
	}
	names := append(p.options.api.names(), p.options.web.host())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if !allowedHost(r.Host, local, names) { // as from a page elsewhere, whose name was made to resolve to the agent
			p.fail(w, http.StatusMisdirectedRequest, errors.New("this is no name of the agent; use its address, or start it with --listen-host NAME"))
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
			p.fail(w, http.StatusForbidden, errors.New("this is for the agent's own page, not for one elsewhere"))
			return
		}
		all.ServeHTTP(w, r)
	})
}

// withToken refuses requests without the token.
func (p *webPage) withToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.token.sentBy(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="nodeagent"`)
			p.fail(w, http.StatusUnauthorized, errors.New("the token is missing or wrong; nodeagent web prints the link that has it"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// place serves an answer without an end, unless too many pages have one.
func (p *webPage) place(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case p.places <- struct{}{}:
			defer func() { <-p.places }()
			serve(w, r)
		default:
			p.fail(w, http.StatusServiceUnavailable, errors.New("too many pages are open already; close one of them"))
		}
	}
}

// link answers with the link that opens the page.
func (a *agent) link(w http.ResponseWriter, _ *http.Request) {
	if a.page == nil {
		a.failure(w, refusal{http.StatusNotFound, "this agent serves no page; start it with --web 127.0.0.1:8080"})
		return
	}
	a.write(w, http.StatusOK, pageLink{a.page.link()})
}

// pageLink is the answer to GET /web.
type pageLink struct {
	Link string `json:"link"`
}
