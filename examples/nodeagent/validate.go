package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/source"
)

// fault is what is wrong at one place of a manifest.
type fault struct {
	file  string
	line  int    // 0: not known
	field string // "": the whole
	text  string
}

// String returns one line, which editors can jump to.
func (f fault) String() string {
	place := f.file
	if f.line > 0 {
		place += ":" + strconv.Itoa(f.line)
	}
	return printable(joined(": ", place, f.field, f.text))
}

// validate reads the manifests of a folder as the agent would, starts nothing, and names everything
// that is wrong with them.
func validate(ctx context.Context, o options, out io.Writer) error {
	faults, pods, err := o.faults(ctx)
	if err != nil {
		return err
	}
	for _, f := range faults {
		fmt.Fprintln(out, f)
	}
	fmt.Fprintf(out, "good pods: %d, faults: %d\n", pods, len(faults))
	if len(faults) > 0 {
		return exit{code: codeFailed}
	}
	return nil
}

// sourceAnnotation says where a pod came from; the agent sets it.
const sourceAnnotation = "kubernetes.io/config.source"

// faults returns those of the folder --validate, and the number of pods without any.
func (o *options) faults(ctx context.Context) (faults []fault, good int, err error) {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	var folder *source.File
	unreadable := eventFunc(func() {
		if folder.Health().LastError != nil {
			enough() // a source that cannot be read delivers nothing, and would try again
		}
	})
	folder, err = source.NewFile(o.validate, o.nodeName, source.FileOptions{Name: localSource, PollOnly: true, Recorder: unreadable})
	if err != nil {
		return nil, 0, fmt.Errorf("--validate: %w", err)
	}
	if o.objects != "" {
		folder.AllowObjects()
	}
	policies, err := admission.BySource(o.sources.policies())
	if err != nil {
		return nil, 0, err
	}
	err = folder.Run(ctx, func(_ context.Context, pods []*v1.Pod) error {
		good = len(pods)
		owners := map[types.UID]string{}
		for _, pod := range pods {
			if owner, taken := owners[pod.UID]; taken { // the folder delivers both, and one of them runs
				good--
				faults = append(faults, fault{file: o.validate, text: fmt.Sprintf("pod %s/%s and pod %s have the same UID %s: only one of them runs", pod.Namespace, pod.Name, owner, pod.UID)})
				continue
			}
			owners[pod.UID] = pod.Namespace + "/" + pod.Name
			pod = pod.DeepCopy()
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, sourceAnnotation, localSource)
			if verdict := policies.Review(pod); !verdict.Admitted() {
				good--
				faults = append(faults, fault{file: o.validate, text: fmt.Sprintf("pod %s is refused: %s", pod.Name, verdict.Message)})
			}
		}
		enough()
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, 0, err
	}
	if err := folder.Health().LastError; err != nil {
		return nil, 0, fmt.Errorf("--validate: %w", err)
	}
	for _, p := range folder.Problems() {
		if p.Pod != nil {
			good--
		}
		faults = append(faults, faultsOf(p.Path, p.Err)...)
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line)) })
	return faults, max(good, 0), nil
}

// eventFunc is a source.FileOptions.Recorder that only says when there is an event.
type eventFunc func()

func (f eventFunc) Eventf(apiruntime.Object, string, string, string, ...any) { f() }

// faultsOf finds the places that the error of a manifest is about.
func faultsOf(path string, err error) (out []fault) {
	var content []byte
	readErr := err
	if !errors.Is(err, source.ErrSkipped) && !errors.Is(err, source.ErrTooLarge) { // reading a FIFO would wait for its writer
		content, readErr = os.ReadFile(path)
	}
	var root yaml.Node
	if readErr == nil {
		readErr = yaml.Unmarshal(content, &root)
	}
	line := func(field string) int {
		if readErr != nil {
			return 0
		}
		return lineOf(&root, field)
	}
	unknown := " field; the pod runs without it"
	if errors.Is(err, source.ErrInvalid) || errors.Is(err, source.ErrMalformed) || errors.Is(err, source.ErrDuplicate) {
		unknown = " field"
	}
	all := leaves(err)
	if readErr == nil && errors.Is(err, source.ErrMalformed) {
		all = withMisfits(all, content)
	}
	for _, one := range all {
		f := fault{file: path, text: one.Error()}
		if wrong, ok := errors.AsType[misfit](one); ok {
			f.field, f.text = wrong.field, wrong.text
			f.line = line(f.field)
			out = append(out, f)
			continue
		}
		if twice := repeatedKey.FindAllStringSubmatch(f.text, -1); twice != nil {
			for _, m := range twice {
				f.line, _ = strconv.Atoi(m[1]) // m[1] is digits
				f.text = "key " + m[2] + " is there twice; the last one counts"
				out = append(out, f)
			}
			continue
		}
		if at, ok := errors.AsType[*field.Error](one); ok {
			f.field, f.text = at.Field, at.ErrorBody()
			f.line = line(f.field)
		} else if m := unknownField.FindStringSubmatch(f.text); m != nil {
			f.field, f.text = m[2], m[1]+unknown
			f.line = line(f.field)
		} else if m := yamlLine.FindStringSubmatch(f.text); m != nil {
			f.line, _ = strconv.Atoi(m[1]) // m[1] is digits
		}
		out = append(out, f)
	}
	return out
}

var (
	unknownField = regexp.MustCompile(`^(unknown|duplicate) field "([^"]+)"$`)
	yamlLine     = regexp.MustCompile(`\bline (\d+)\b`)
	repeatedKey  = regexp.MustCompile(`(?m)^ +line (\d+): key (.+) already set in map$`)
)

// leaves returns the errors about one thing each.
func leaves(err error) (out []error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok && isList(err, all.Unwrap()) {
		for _, one := range all.Unwrap() {
			out = append(out, leaves(one)...)
		}
		return out
	}
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		return all.Errors()
	}
	if all, ok := errors.AsType[interface {
		error
		Errors() []error
	}](err); ok {
		return all.Errors()
	}
	return []error{err}
}

// isList reports whether an error lists others, and is not one error with several causes.
func isList(err error, inner []error) bool {
	var texts []string
	for _, one := range inner {
		texts = append(texts, one.Error())
	}
	return err.Error() == strings.Join(texts, "; ") || err.Error() == strings.Join(texts, "\n")
}

// lineOf returns the line of a field such as spec.containers[0].image, or of its nearest existing
// parent: the field itself may be missing.
func lineOf(node *yaml.Node, path string) int {
	if node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	line := node.Line
	for _, step := range pathSteps.FindAllString(path, -1) {
		next, at := child(node, strings.Trim(step, ".[]\"'"))
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

// pathSteps splits at dots, and at brackets, whose content may contain dots.
var pathSteps = regexp.MustCompile(`\[[^\]]*\]|[^.\[\]]+`)

// child returns an entry of a map or a list, and its line.
func child(node *yaml.Node, name string) (*yaml.Node, int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	case yaml.AliasNode:
		return child(node.Alias, name)
	}
	return nil, 0
}
