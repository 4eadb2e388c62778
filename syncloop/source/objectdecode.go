package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// objectDecoder turns manifests into config maps and secrets. Its errors never quote a value or
// an unknown field, which may be a value in the wrong column (OB6).
type objectDecoder struct{ serializer apiruntime.Decoder }

func newObjectDecoder() (objectDecoder, error) {
	scheme := apiruntime.NewScheme()
	scheme.AddKnownTypes(v1.SchemeGroupVersion, &v1.ConfigMap{}, &v1.Secret{}) // no other kind needs decoding (D10)
	return objectDecoder{json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})}, nil
}

// decode returns the objects of all documents of a file and their approximate size. An error that
// comes with objects is a warning. A panic in a library becomes an error of this file (SI9).
func (d objectDecoder) decode(text []byte) (objects map[Object]any, size int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			objects, size, err = nil, 0, fmt.Errorf("%w: decoding it panicked", errNoObject)
		}
	}()
	objects = map[Object]any{}
	var warning error
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%w: document %d is not valid YAML", errNoObject, n)
		}
		if empty(document) {
			continue
		}
		parsed, err := parse(document, size, maxObjectFile)
		switch {
		case errors.Is(err, ErrTooLarge):
			return nil, 0, fmt.Errorf("document %d: %w", n, err)
		case err != nil: // the parser's own error quotes the text
			return nil, 0, fmt.Errorf("%w: document %d is not valid YAML", errNoObject, n)
		}
		size += parsed.size
		o, object, unknown, err := d.document(parsed)
		if err != nil {
			return nil, 0, fmt.Errorf("document %d: %w", n, err)
		}
		if objects[o] != nil {
			return nil, 0, fmt.Errorf("%w: document %d defines %s %s/%s a second time", errBadObject, n, o.Kind, o.Namespace, o.Name)
		}
		objects[o] = object
		if unknown {
			warning = errors.Join(warning, fmt.Errorf("%w: document %d, %s %s/%s is used without it", ErrUnknownField, n, o.Kind, o.Namespace, o.Name))
		}
	}
	return objects, size, warning
}

// errNoObject: the file has something that is neither a config map nor a secret.
var errNoObject = errors.New("not a config map or secret")

// errTwice: a later file defines an object of this file too. The rest of the file is used.
var errTwice = errors.New("another definition of the same object")

// document decodes and checks one document.
func (d objectDecoder) document(parsed document) (o Object, object any, unknown bool, err error) {
	text, err := toJSON(parsed.content)
	if err != nil {
		return o, nil, false, fmt.Errorf("%w: it has a value or a key that JSON does not have", errNoObject)
	}
	decoded, kind, err := d.serializer.Decode(text, nil, nil)
	warning, err := parsed.warning(err)
	switch {
	case kind != nil && kind.Version != "" && (kind.GroupVersion() != v1.SchemeGroupVersion || kind.Kind != kindConfigMap && kind.Kind != kindSecret):
		return o, nil, false, fmt.Errorf("%w: it is of kind %q, version %q", errNoObject, kind.Kind, kind.GroupVersion())
	case err != nil:
		return o, nil, false, fmt.Errorf("%w: it is not valid, a field has the wrong type, or data is not base64", errNoObject)
	}
	var meta *metav1.ObjectMeta
	switch x := decoded.(type) {
	case *v1.ConfigMap:
		meta = &x.ObjectMeta
	case *v1.Secret:
		meta = &x.ObjectMeta
		for key, value := range x.StringData { // as an API server does
			if x.Data == nil {
				x.Data = map[string][]byte{}
			}
			x.Data[key] = []byte(value)
		}
		x.StringData = nil
	default:
		return o, nil, false, errNoObject
	}
	setDefault(&meta.Namespace, v1.NamespaceDefault)
	o = Object{Kind: kind.Kind, Namespace: meta.Namespace, Name: meta.Name}
	return o, decoded, warning != nil, checkObject(o, decoded)
}

// checkObject refuses the objects that an API server would refuse.
func checkObject(o Object, object any) error {
	var problems []string
	problems = append(problems, validation.IsDNS1123Subdomain(o.Name)...)
	problems = append(problems, validation.IsDNS1123Label(o.Namespace)...)
	keys := dataKeys(object)
	for i, key := range keys {
		if len(validation.IsConfigMapKey(key)) > 0 {
			problems = append(problems, "a key has characters other than letters, digits, '-', '_' and '.', or is too long")
			break
		}
		if i > 0 && key == keys[i-1] {
			problems = append(problems, "a key is in data and in binaryData")
			break
		}
	}
	if dataSize(object) > maxObjectData {
		problems = append(problems, fmt.Sprintf("its values have more than %d bytes", maxObjectData))
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return fmt.Errorf("%w: %s %q: %s", errBadObject, o.Kind, o.Namespace+"/"+o.Name, strings.Join(slices.Compact(problems), "; "))
}

// errBadObject: no API server would accept the object.
var errBadObject = errors.New("invalid config map or secret")
