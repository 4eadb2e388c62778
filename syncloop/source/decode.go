package source

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/podwright/podwright/internal/podinfo"
)

// decoder turns manifests into pods. It keeps no manifest between calls.
type decoder struct {
	serializer apiruntime.Decoder
	node       string
	// references allows references to all objects of the API server, objects only those to
	// config maps and secrets.
	references bool
	objects    atomic.Bool
	// remote: the manifests do not come from a file (D6).
	remote bool
}

// newDecoder refuses a node name that no pod could carry.
func newDecoder(node string, references bool) (*decoder, error) {
	var problems []error
	for _, message := range validation.IsDNS1123Subdomain(strings.ToLower(node)) {
		problems = append(problems, fmt.Errorf("node name %q: %s", node, message))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	scheme := apiruntime.NewScheme()
	scheme.AddKnownTypes(v1.SchemeGroupVersion, &v1.Pod{}) // no other kind needs decoding (D10)
	return &decoder{
		serializer: json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true}),
		node:       node, references: references,
	}, nil
}

// decode returns the pod of a manifest, completed and checked. origin tells equal
// manifests apart: "file:" and the path, or "url:" and the URL. An error that comes
// with a pod is a warning. A panic in a library becomes an error of this manifest
// and does not end the source (SI9).
func (d *decoder) decode(data []byte, origin string) (decoded *v1.Pod, err error) {
	defer recoverDecoding(&decoded, &err)
	document, err := parseOnly(data)
	if err != nil {
		return nil, err
	}
	return d.decodeDocument(document, origin)
}

// recoverDecoding turns a panic into an error of the manifest.
func recoverDecoding[T any](decoded *T, err *error) {
	if p := recover(); p != nil {
		*decoded, *err = *new(T), fmt.Errorf("%w: decoding it panicked: %v", ErrMalformed, p)
	}
}

// parseOnly parses the only document of a manifest.
func parseOnly(data []byte) (document, error) {
	text, err := single(data)
	if err == nil {
		var parsed document
		if parsed, err = parse(text, 0, maxManifestSize); err == nil {
			return parsed, nil
		}
	}
	if errors.Is(err, ErrTooLarge) {
		return document{}, err
	}
	return document{}, fmt.Errorf("%w: %w", ErrMalformed, err)
}

// decodeDocument is decode for a parsed document.
func (d *decoder) decodeDocument(document document, origin string) (*v1.Pod, error) {
	text, err := toJSON(document.content)
	if err == nil {
		err = checkTop(document.content)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if path := hugeQuantity(document.content); path != "" {
		return nil, fmt.Errorf("%w: %s: %s", ErrMalformed, path, hugeText)
	}
	object, kind, err := d.serializer.Decode(text, nil, nil)
	warning, err := document.warning(err)
	pod, isPod := object.(*v1.Pod)
	switch {
	case kind != nil && strings.HasSuffix(kind.Kind, "List"):
		return nil, fmt.Errorf("%w: it is a list; one file holds one pod", ErrMalformed)
	case isOtherKind(kind):
		return nil, fmt.Errorf("%w: it is of kind %q, version %q", ErrOtherKind, kind.Kind, kind.GroupVersion())
	case kind != nil && (kind.Kind != "Pod" || kind.GroupVersion() != v1.SchemeGroupVersion):
		return nil, fmt.Errorf("%w: it is of kind %q, version %q, not of kind \"Pod\", version \"v1\"",
			ErrMalformed, kind.Kind, kind.GroupVersion())
	case err != nil:
		return nil, both(fmt.Errorf("%w: %s%w", ErrMalformed, badQuantity(document.content), inWords(err)), warning)
	case !isPod:
		return nil, fmt.Errorf("%w: it decodes to %T", ErrMalformed, object)
	}
	if err := d.complete(pod, document.content, origin); err != nil {
		return nil, both(err, warning) // a misspelt field may be why another one is missing
	}
	return pod, warning
}

// both returns two errors in one line, or the one that is not nil.
func both(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}

// isOtherKind reports whether a manifest clearly says that it is not a pod. A kind that the group
// of pods does not have may be a misspelt Pod; that manifest counts as unreadable.
func isOtherKind(kind *schema.GroupVersionKind) bool {
	switch {
	case kind == nil || kind.Version == "":
		return false
	case kind.Group == "":
		switch kind.Kind { // all of this group but Pod
		case "Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim",
			"PodTemplate", "ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount":
			return true
		}
		return false
	}
	name := strings.ToLower(kind.Kind)
	return name != "" && name != "pod" && name != "pods"
}

// complete gives the pod its identity and defaults (D1-D7), and refuses it if it
// could not run (D8).
func (d *decoder) complete(pod *v1.Pod, content any, origin string) error {
	if pod.Name == "" {
		return fmt.Errorf("%w: metadata.name must be set", ErrInvalid)
	}
	if pod.UID == "" { // D9: a given one stays
		uid, err := generatedUID(content, "host:"+d.node, origin)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		pod.UID = uid
	}
	pod.Name += "-" + strings.ToLower(d.node)
	pod.Spec.NodeName = d.node
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podinfo.AnnotationHash] = string(pod.UID)
	delete(pod.Annotations, podinfo.AnnotationMirror) // only an API server makes mirror pods
	if !d.remote {                                    // D6
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{
			Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute,
		})
	}
	// Only an API server or a runtime sets these fields, never a manifest.
	pod.Status = v1.PodStatus{}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = nil, nil
	Default(pod)
	problems := Validate(pod)
	if !d.references {
		problems = append(problems, apiReferences(pod, d.objects.Load())...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalid, problems.ToAggregate())
	}
	return nil
}

// separator is the line between two documents of a file.
const separator = "---"

// single returns the only document of a manifest.
func single(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte(separator)) && !bytes.Contains(data, []byte("\n"+separator)) && !empty(data) {
		return data, nil // the reader below would copy it
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var found []byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if empty(document) {
			continue
		}
		if found != nil {
			return nil, errors.New("it holds more than one document; one file holds one pod")
		}
		found = document
	}
	if found == nil {
		return nil, errors.New("it is empty")
	}
	return found, nil
}

// empty reports whether a document holds nothing but white space, comments and
// separators.
func empty(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && string(line) != separator {
			return false
		}
	}
	return true
}

// generatedUID returns the MD5 sum of a manifest's canonical form and the parts, as 32 hexadecimal
// digits. The sum distinguishes contents; it is no security measure.
func generatedUID(content any, parts ...string) (types.UID, error) {
	sum := md5.New()
	if err := writeCanonical(sum, content); err != nil {
		return "", err
	}
	for _, p := range parts {
		sum.Write([]byte(p))
	}
	return types.UID(hex.EncodeToString(sum.Sum(nil))), nil
}
