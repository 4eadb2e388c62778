package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// sourceOptions say where manifests come from, and how far each place is trusted.
type sourceOptions struct {
	manifests   string
	urls        []string
	headerFile  string
	podSecurity string

	headers http.Header
}

// localSource is the name of the source of the folder.
const localSource = "file"

// highestUserPriority is the highest that Kubernetes lets its users define: what is above it is
// the system's.
const highestUserPriority = 1_000_000_000

func (o *sourceOptions) register(flags *flag.FlagSet) {
	flags.StringVar(&o.manifests, "manifests", "", "folder of pod manifests (YAML or JSON), or one manifest; this or --manifest-url is required")
	flags.Func("manifest-url", "`URL` of a pod or a list of pods, polled every 20 s; may be given several times", func(url string) error {
		o.urls = append(o.urls, url)
		return nil
	})
	flags.StringVar(&o.headerFile, "manifest-url-header-file", "", "file of headers, one \"Name: value\" per line, sent to every --manifest-url; closed to others (mode 600)")
	flags.StringVar(&o.podSecurity, "pod-security", "", "level of the Pod Security Standards that pods must keep to: privileged, baseline or restricted (default: baseline for pods of --manifest-url, privileged for those of --manifests)")
}

// complete checks the options and reads the headers.
func (o *sourceOptions) complete() error {
	var problems []error
	if o.manifests == "" && len(o.urls) == 0 {
		problems = append(problems, errors.New("--manifests is required, or --manifest-url: name a folder of pod manifests, or a URL"))
	}
	if o.manifests != "" {
		if _, err := os.Stat(o.manifests); err != nil {
			problems = append(problems, fmt.Errorf("--manifests: %w", err))
		}
	}
	for i, u := range o.urls {
		if slices.ContainsFunc(o.urls[:i], func(other string) bool { return urlSource(other) == urlSource(u) }) {
			problems = append(problems, fmt.Errorf("--manifest-url %s is given twice", withoutSecrets(u)))
		}
	}
	if !slices.Contains([]string{"", "privileged", "baseline", "restricted"}, o.podSecurity) {
		problems = append(problems, fmt.Errorf("--pod-security %q: want privileged, baseline or restricted", o.podSecurity))
	}
	if o.headerFile != "" {
		var err error
		if o.headers, err = readHeaders(o.headerFile); err != nil {
			problems = append(problems, fmt.Errorf("--manifest-url-header-file: %w", err))
		}
	}
	return errors.Join(problems...)
}

// readHeaders reads a file that only its owner may read. No error quotes it.
func readHeaders(path string) (http.Header, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s may be read by others (mode %#o): chmod 600 %s", path, info.Mode().Perm(), path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if name = textproto.TrimString(name); !found || name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("%s: line %d is not \"Name: value\"", path, i+1)
		}
		headers.Add(name, textproto.TrimString(value))
	}
	return headers, nil
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
			Name: urlSource(u), Header: o.headers, Recorder: file.Recorder, Logger: logger.WithName("manifest-url"), Meter: file.Meter,
		})
		if err != nil {
			return nil, fmt.Errorf("--manifest-url %s: %w", withoutSecrets(u), err)
		}
		out = append(out, s)
	}
	return out, nil
}

// policies are what the pods of each source may be: a folder of this machine is its owner's, who
// answers at a URL need not be.
func (o *sourceOptions) policies() map[string]admission.SourcePolicy {
	highest := int32(highestUserPriority)
	out := map[string]admission.SourcePolicy{
		"": {Security: admission.SecurityLevel(cmp.Or(o.podSecurity, string(admission.SecurityBaseline))), HighestPriority: &highest, OwnUIDs: true},
	}
	if o.manifests != "" {
		out[localSource] = admission.SourcePolicy{Security: admission.SecurityLevel(cmp.Or(o.podSecurity, string(admission.SecurityPrivileged)))}
	}
	return out
}

// told is each place with the level its pods must keep to, for the line at the start.
func (o *sourceOptions) told() string {
	var out []string
	p := o.policies()
	if o.manifests != "" {
		out = append(out, fmt.Sprintf("%s (%s)", o.manifests, p[localSource].Security))
	}
	for _, u := range o.urls {
		out = append(out, fmt.Sprintf("%s (%s)", withoutSecrets(u), p[""].Security))
	}
	return strings.Join(out, ", ")
}

// urlSource names the source of a URL, in the same way after a restart.
func urlSource(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "http"
	}
	return "http:" + u.Host + u.EscapedPath()
}

// withoutSecrets is a URL as it may be shown.
func withoutSecrets(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(no URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
