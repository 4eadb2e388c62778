package server

import (
	"net/http"
	"strings"
)

// attributes are the rights that suffice for a request: a verb on one of the subresources of the
// Node (KH2). Any one that is allowed suffices.
type attributes struct {
	verb         string
	subresources []string
}

// verbOf returns the verb of a method, as the API server maps them.
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

// subresourceOf returns the subresources for the first element of a path.
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

// attributesOf returns the rights for a request. What changes or enters a container never needs
// just "get", although WebSockets begin with a GET.
func attributesOf(method, path string) attributes {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	a := attributes{verb: verbOf(method), subresources: subresourceOf(strings.ToLower(first))}
	switch first {
	case "exec", "attach", "portForward":
		a.verb = "create"
	}
	return a
}
