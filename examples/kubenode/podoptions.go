package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// Names of the sources of static pods.
const (
	folderSource = "file"
	urlSource    = "http"
)

// highestServedPriority is the highest that pods of --manifest-url may claim: higher priorities are the system's.
const highestServedPriority = 1_000_000_000

// podOptions are the part of the command line about static pods, and about what the pods of each
// source may do.
type podOptions struct {
	manifests, url string
	// level is for the API server's pods outside the exempt namespaces.
	level, staticLevel, urlLevel string
	exempt                       string
}

func (o *podOptions) register(flags *flag.FlagSet) {
	flags.StringVar(&o.manifests, "manifests", "", "`folder` of manifests of static pods, or one manifest")
	flags.StringVar(&o.url, "manifest-url", "", "`URL` of a static pod, or of a list of them, asked every 20 s")
	flags.StringVar(&o.level, "pod-security", "privileged", "`LEVEL` of the Pod Security Standards that pods of the API server must keep to: privileged, baseline or restricted; one that does not is Failed with the reason PodSecurity. It is for new pods and changes: what runs goes on")
	flags.StringVar(&o.exempt, "pod-security-exempt-namespaces", "kube-system", "`namespaces`, separated by commas, whose pods of the API server may do everything")
	flags.StringVar(&o.staticLevel, "manifests-security", "privileged", "`LEVEL` for the pods of --manifests")
	flags.StringVar(&o.urlLevel, "manifest-url-security", "baseline", "`LEVEL` for the pods of --manifest-url")
}

// complete checks the options.
func (o *podOptions) complete() error {
	var problems []error
	for _, f := range []struct{ name, level string }{{"pod-security", o.level}, {"manifests-security", o.staticLevel}, {"manifest-url-security", o.urlLevel}} {
		if !slices.Contains([]admission.SecurityLevel{admission.SecurityPrivileged, admission.SecurityBaseline, admission.SecurityRestricted}, admission.SecurityLevel(f.level)) {
			problems = append(problems, fmt.Errorf("--%s %q is none of privileged, baseline and restricted", f.name, f.level))
		}
	}
	if _, err := admission.PodSecurity(admission.SecurityPrivileged, o.exemptions()); err != nil {
		problems = append(problems, fmt.Errorf("--pod-security-exempt-namespaces: %w", err))
	}
	if o.url != "" {
		if u, err := url.Parse(o.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			problems = append(problems, errors.New("--manifest-url: want an http or https URL"))
		}
	}
	return errors.Join(problems...)
}

func (o *podOptions) exemptions() (e admission.SecurityExemptions) {
	for namespace := range strings.SplitSeq(o.exempt, ",") {
		if namespace = strings.TrimSpace(namespace); namespace != "" {
			e.Namespaces = append(e.Namespaces, namespace)
		}
	}
	return e
}

// configure adds the sources of static pods, and the policies of all sources.
func (o *podOptions) configure(c *podwright.Config, logger logr.Logger) error {
	highest := int32(highestServedPriority)
	policies := map[string]admission.SourcePolicy{
		syncloop.SourceAPI: {Security: admission.SecurityLevel(o.level), Exemptions: o.exemptions()},
	}
	if o.manifests != "" {
		static, err := source.NewFile(o.manifests, c.Node.Name, source.FileOptions{Name: folderSource, Logger: logger.WithName("manifests")})
		if err != nil {
			return fmt.Errorf("--manifests %s: %w", o.manifests, err)
		}
		c.Sources = append(c.Sources, static)
		policies[folderSource] = admission.SourcePolicy{Security: admission.SecurityLevel(o.staticLevel)}
	}
	if o.url != "" {
		static, err := source.NewHTTP(o.url, c.Node.Name, source.HTTPOptions{Name: urlSource, Logger: logger.WithName("manifest-url")})
		if err != nil {
			return fmt.Errorf("--manifest-url: %w", err)
		}
		c.Sources = append(c.Sources, static)
		policies[urlSource] = admission.SourcePolicy{Security: admission.SecurityLevel(o.urlLevel), HighestPriority: &highest, OwnUIDs: true}
	}
	c.Admission.Sources = policies
	return nil
}
