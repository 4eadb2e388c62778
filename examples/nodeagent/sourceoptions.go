package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// sourceOptions say where manifests come from, and how far each source is trusted.
type sourceOptions struct {
	manifests string
	// folderFlag is the flag that named manifests, empty for its own.
	folderFlag string
	urls       []string
	// headerFiles and levels are the flags as given: "URL=WHAT", or WHAT alone.
	headerFiles []string
	levels      []string

	// headerFile and level are keyed by URL; the level of the empty URL applies to all sources
	// without their own.
	headerFile, level map[string]string
}

// localSource is the name of the folder's source.
const localSource = "file"

// highestUserPriority is the highest priority that Kubernetes lets its users define: higher ones
// belong to the system.
const highestUserPriority = 1_000_000_000

func (o *sourceOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.manifests, "manifests", "", "folder of pod manifests (YAML or JSON), or one manifest; this or --manifest-url is required")
	flags.Func("manifest-url", "`URL` of a pod or a list of pods, polled every 20 s; may be given several times", func(url string) error {
		o.urls = append(o.urls, url)
		return nil
	})
	flags.Func("manifest-url-header-file", "`URL=FILE` of headers, one \"Name: value\" per line, for that --manifest-url alone; closed to others (mode 600), read again for every request. FILE is enough if there is one URL", func(file string) error {
		o.headerFiles = append(o.headerFiles, file)
		return nil
	})
	flags.Func("pod-security", "`LEVEL` of the Pod Security Standards that pods must keep to: privileged, baseline or restricted (default: baseline for pods of --manifest-url, privileged for those of --manifests); URL=LEVEL is for that --manifest-url alone", func(level string) error {
		o.levels = append(o.levels, level)
		return nil
	})
}

// validate takes the folder of --validate, if there is one, in place of the agent's own, which may be elsewhere.
func (o *sourceOptions) validate(folder string) {
	if folder != "" {
		o.manifests, o.folderFlag = folder, "--validate"
	}
}

// complete checks the options and reads the headers.
func (o *sourceOptions) complete() error {
	var problems []error
	if o.manifests == "" && len(o.urls) == 0 {
		problems = append(problems, errors.New("--manifests is required, or --manifest-url: name a folder of pod manifests, or a URL"))
	}
	if o.manifests != "" {
		if _, err := os.Stat(o.manifests); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", cmp.Or(o.folderFlag, "--manifests"), err))
		}
	}
	for i, u := range o.urls {
		if slices.ContainsFunc(o.urls[:i], func(other string) bool { return urlSource(other) == urlSource(u) }) {
			problems = append(problems, fmt.Errorf("--manifest-url %s is given twice", withoutSecrets(u)))
		}
	}
	problems = append(problems, o.completeLevels()...)
	problems = append(problems, o.completeHeaders()...)
	return errors.Join(problems...)
}

// ofURL splits "URL=WHAT" at one of the given URLs; found is false if text begins with none of them.
func (o *sourceOptions) ofURL(text string) (url, what string, found bool) {
	for _, u := range o.urls {
		if rest, ok := strings.CutPrefix(text, u+"="); ok && (!found || len(u) > len(url)) {
			url, what, found = u, rest, true
		}
	}
	return url, what, found
}

// completeLevels sorts the levels by URL.
func (o *sourceOptions) completeLevels() (problems []error) {
	o.level = map[string]string{}
	for _, text := range o.levels {
		url, level, found := o.ofURL(text)
		if !found {
			level = text
		}
		switch _, twice := o.level[url]; {
		case !slices.Contains([]string{"privileged", "baseline", "restricted"}, level):
			problems = append(problems, fmt.Errorf("--pod-security %s: want privileged, baseline or restricted, or one of them for a --manifest-url, as URL=LEVEL", quoted(text)))
		case twice:
			problems = append(problems, fmt.Errorf("--pod-security is given twice for %s", cmp.Or(withoutSecrets(url), "the places without one of their own")))
		}
		o.level[url] = level
	}
	return problems
}

// completeHeaders sorts the files of headers by URL, and reads each once, to report at the start
// what is wrong with it.
func (o *sourceOptions) completeHeaders() (problems []error) {
	o.headerFile = map[string]string{}
	for _, text := range o.headerFiles {
		url, path, found := o.ofURL(text)
		if !found && len(o.urls) == 1 && !strings.Contains(text, "://") {
			url, path, found = o.urls[0], text, true
		}
		if !found {
			problems = append(problems, fmt.Errorf("--manifest-url-header-file %s: want URL=FILE with a --manifest-url: no other server may get its headers", quoted(text)))
			continue
		}
		if o.headerFile[url] != "" {
			problems = append(problems, fmt.Errorf("--manifest-url-header-file is given twice for %s", withoutSecrets(url)))
		}
		o.headerFile[url] = path
		if _, err := readHeaders(path); err != nil {
			problems = append(problems, fmt.Errorf("--manifest-url-header-file for %s: %w", withoutSecrets(url), err))
		}
	}
	return problems
}

// quoted returns a flag's value without anything in a URL that may be secret.
func quoted(text string) string {
	if strings.Contains(text, "://") {
		return withoutSecrets(text)
	}
	return fmt.Sprintf("%q", text)
}

// open returns the sources.
func (o *sourceOptions) open(node string, file source.FileOptions, logger logr.Logger) ([]syncloop.Source, error) {
	var out []syncloop.Source
	if o.manifests != "" {
		file.Name, file.Logger = localSource, logger.WithName("manifests")
		s, err := source.NewFile(o.manifests, node, file)
		if err != nil {
			return nil, fmt.Errorf("--manifests: %w", err)
		}
		out = append(out, s)
	}
	for _, u := range o.urls {
		s, err := source.NewHTTP(u, node, source.HTTPOptions{
			Name: urlSource(u), Headers: o.headersOf(u), Recorder: file.Recorder, Logger: logger.WithName("manifest-url"), Meter: file.Meter,
		})
		if err != nil {
			return nil, fmt.Errorf("--manifest-url %s: %w", withoutSecrets(u), err)
		}
		out = append(out, s)
	}
	return out, nil
}

// headersOf returns a function that reads the headers of a URL, nil if it has none.
func (o *sourceOptions) headersOf(url string) func() (http.Header, error) {
	path := o.headerFile[url]
	if path == "" {
		return nil
	}
	return func() (http.Header, error) { return readHeaders(path) }
}

// policies returns what the pods of each source may do: a folder of this machine is trusted like
// its owner, a server at a URL is not.
func (o *sourceOptions) policies() map[string]admission.SourcePolicy {
	highest := int32(highestUserPriority)
	served := func(level string) admission.SourcePolicy {
		return admission.SourcePolicy{Security: admission.SecurityLevel(cmp.Or(level, o.level[""], string(admission.SecurityBaseline))), HighestPriority: &highest, OwnUIDs: true}
	}
	out := map[string]admission.SourcePolicy{"": served("")}
	for _, u := range o.urls {
		out[urlSource(u)] = served(o.level[u])
	}
	if o.manifests != "" {
		out[localSource] = admission.SourcePolicy{Security: admission.SecurityLevel(cmp.Or(o.level[""], string(admission.SecurityPrivileged)))}
	}
	return out
}

// told lists the sources with the security level that each one's pods must meet, for the line at the start.
func (o *sourceOptions) told() string {
	var out []string
	p := o.policies()
	if o.manifests != "" {
		out = append(out, fmt.Sprintf("%s (%s)", o.manifests, p[localSource].Security))
	}
	for _, u := range o.urls {
		out = append(out, fmt.Sprintf("%s (%s)", withoutSecrets(u), p[urlSource(u)].Security))
	}
	return strings.Join(out, ", ")
}

// urlSource names the source of a URL; the name is the same after a restart.
func urlSource(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "http"
	}
	return "http:" + u.Host + u.EscapedPath()
}

// withoutSecrets returns a URL in a form that is safe to show.
func withoutSecrets(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(no URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
