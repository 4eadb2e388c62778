package server

import (
	"net/http"
	"strings"
)

// attributes is what a request needs rights to: a verb on one of the subresources of the Node
// (KH2). The first that is allowed suffices.
type attributes struct {
	verb         string
	subresources []string
}

// verbs by method, as the API server has them.
func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return strings.ToLower(method)
}

// subresourceOf lists what has a subresource of its own, by the first element of the path.
func subresourceOf(first string) []string {
	switch first {
	case "stats", "metrics", "checkpoint":
		return []string{first}
	case "logs":
		return []string{"log"}
	case "pods", "runningpods":
		return []string{"pods", "proxy"}
	case "healthz", "configz":
		return []string{first, "proxy"}
	}
	return []string{"proxy"}
}

// attributesOf returns what a request needs. What changes or enters a container is never
// a matter of "get", although WebSockets begin with a GET.
func attributesOf(method, path string) attributes {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	a := attributes{verb: verbOf(method), subresources: subresourceOf(strings.ToLower(first))}
	switch first {
	case "exec", "attach", "portForward":
		a.verb = "create"
	}
	return a
}
