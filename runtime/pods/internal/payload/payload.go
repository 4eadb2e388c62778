package payload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// Objects reads the objects of the pod's namespace. [cri.IsNotFound] recognizes the
// error for an object that does not exist.
type Objects interface {
	ConfigMap(ctx context.Context, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, name string) (*v1.Secret, error)
}

// Input is what files are made of.
type Input struct {
	Pod     *v1.Pod
	Objects Objects
	Down    criconfig.Downward
	// Projections makes what only an API server can give. Nil: nothing makes it.
	Projections Projections
}

// defaultMode is the mode of files without a mode in the manifest.
const defaultMode = 0o644

// Handles reports whether the volume has files that this package decides.
func Handles(v *v1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// Files returns the files of a volume.
func Files(ctx context.Context, in Input, v *v1.Volume) (map[string]poddir.File, error) {
	switch {
	case v.ConfigMap != nil:
		s := v.ConfigMap
		return in.configMap(ctx, s.Name, s.Items, s.DefaultMode, s.Optional)
	case v.Secret != nil:
		s := v.Secret
		return in.secret(ctx, s.SecretName, s.Items, s.DefaultMode, s.Optional)
	case v.DownwardAPI != nil:
		return in.downward(v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		return in.projected(ctx, v.Projected)
	}
	return nil, errors.New("not a volume of API objects")
}

// HoldsSecrets reports whether a volume's files can be secret.
func HoldsSecrets(v *v1.Volume) bool {
	return v.Secret != nil || v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool {
		return s.Secret != nil || s.ServiceAccountToken != nil || s.PodCertificate != nil
	})
}

func (in Input) configMap(ctx context.Context, name string, items []v1.KeyToPath, mode *int32, optional *bool) (map[string]poddir.File, error) {
	what := "config map " + strconv.Quote(name)
	object, err := in.Objects.ConfigMap(ctx, name)
	if err != nil {
		return absent(err, optional)
	}
	data := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	for key, text := range object.Data {
		data[key] = []byte(text)
	}
	maps.Copy(data, object.BinaryData)
	return keys(what, data, items, mode, optional)
}

func (in Input) secret(ctx context.Context, name string, items []v1.KeyToPath, mode *int32, optional *bool) (map[string]poddir.File, error) {
	object, err := in.Objects.Secret(ctx, name)
	if err != nil {
		return absent(err, optional)
	}
	return keys("secret "+strconv.Quote(name), object.Data, items, mode, optional)
}

// absent turns an optional object that does not exist into an empty one.
func absent(err error, optional *bool) (map[string]poddir.File, error) {
	if optional != nil && *optional && cri.IsNotFound(err) {
		return map[string]poddir.File{}, nil
	}
	return nil, err
}

// keys makes files of an object's keys: all, or those the items choose.
func keys(what string, data map[string][]byte, items []v1.KeyToPath, mode *int32, optional *bool) (map[string]poddir.File, error) {
	files := map[string]poddir.File{}
	bits, err := fileMode(nil, mode)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		for key, content := range data {
			if err := checkPath(key); err != nil || strings.Contains(key, "/") {
				return nil, fmt.Errorf("%s: key %q cannot be the name of a file", what, key)
			}
			files[key] = poddir.File{Data: content, Mode: bits}
		}
		return files, nil
	}
	for _, item := range items {
		if err := checkPath(item.Path); err != nil {
			return nil, err
		}
		content, ok := data[item.Key]
		if !ok && optional != nil && *optional {
			continue
		}
		if !ok {
			return nil, fmt.Errorf("%s has no key %q", what, item.Key)
		}
		bits, err := fileMode(item.Mode, mode)
		if err != nil {
			return nil, err
		}
		files[item.Path] = poddir.File{Data: content, Mode: bits}
	}
	return files, nil
}

func checkPath(path string) error { return poddir.CheckFileName(path) }

// fileMode returns the file's own mode, the volume's or the default.
func fileMode(own, all *int32) (fs.FileMode, error) {
	mode := int32(defaultMode)
	switch {
	case own != nil:
		mode = *own
	case all != nil:
		mode = *all
	}
	if mode < 0 || mode > 0o777 {
		return 0, fmt.Errorf("mode %#o is not between 0 and 0777", mode)
	}
	return fs.FileMode(mode), nil
}

// downward makes files of the pod's own fields.
func (in Input) downward(items []v1.DownwardAPIVolumeFile, mode *int32) (map[string]poddir.File, error) {
	files := map[string]poddir.File{}
	for _, item := range items {
		if err := checkPath(item.Path); err != nil {
			return nil, err
		}
		bits, err := fileMode(item.Mode, mode)
		if err != nil {
			return nil, err
		}
		text, err := in.field(item)
		if err != nil {
			return nil, fmt.Errorf("downwardAPI file %q: %w", item.Path, err)
		}
		files[item.Path] = poddir.File{Data: []byte(text), Mode: bits}
	}
	return files, nil
}

func (in Input) field(item v1.DownwardAPIVolumeFile) (string, error) {
	switch {
	case item.FieldRef != nil:
		switch path := item.FieldRef.FieldPath; {
		case path == "metadata.labels":
			return lines(in.Pod.Labels), nil
		case path == "metadata.annotations":
			return lines(in.Pod.Annotations), nil
		case strings.HasPrefix(path, "metadata."):
			return criconfig.FieldValue(in.Pod, path, in.Down)
		default:
			return "", fmt.Errorf("fieldRef %q: a volume can hold fields of metadata only", path)
		}
	case item.ResourceFieldRef != nil:
		return criconfig.ResourceValue(in.Pod, item.ResourceFieldRef, in.Down.Allocatable)
	}
	return "", errors.New("it names neither fieldRef nor resourceFieldRef")
}

// lines writes a map as key="value", sorted, one per line.
func lines(m map[string]string) string {
	var b strings.Builder
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s=%q", key, m[key])
	}
	return b.String()
}

// projected joins the files of several sources; if two have the same path, the
// later one wins.
func (in Input) projected(ctx context.Context, p *v1.ProjectedVolumeSource) (map[string]poddir.File, error) {
	files := map[string]poddir.File{}
	for _, s := range p.Sources {
		var part map[string]poddir.File
		var err error
		switch {
		case s.ConfigMap != nil:
			part, err = in.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Items, p.DefaultMode, s.ConfigMap.Optional)
		case s.Secret != nil:
			part, err = in.secret(ctx, s.Secret.Name, s.Secret.Items, p.DefaultMode, s.Secret.Optional)
		case s.DownwardAPI != nil:
			part, err = in.downward(s.DownwardAPI.Items, p.DefaultMode)
		default:
			part, err = in.issued(ctx, s, p.DefaultMode)
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(files, part)
	}
	return files, nil
}
