package containerdtest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strings"
)

// file is one entry of an image's single layer.
type file struct {
	// name is the path without leading slash; a trailing slash makes a folder.
	name    string
	mode    int64
	content []byte
	// link makes a symbolic link to this target.
	link string
}

// image is what makes up an OCI image here: one layer and a configuration.
type image struct {
	reference  string
	files      []file
	entrypoint []string
	command    []string
	env        []string
}

// busyboxImage puts a static busybox into an image, every applet as a link.
func busyboxImage(reference string, busybox []byte, applets []string) image {
	files := []file{
		{name: "bin/", mode: 0o755},
		{name: "etc/", mode: 0o755},
		{name: "root/", mode: 0o700},
		{name: "tmp/", mode: 0o1777},
		{name: "var/", mode: 0o755},
		{name: "bin/busybox", mode: 0o755, content: busybox},
		{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")},
		{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnogroup:x:65534:\n")},
	}
	for _, name := range applets {
		if name == "busybox" || strings.Contains(name, "/") {
			continue
		}
		files = append(files, file{name: path.Join("bin", name), mode: 0o777, link: "busybox"})
	}
	return image{
		reference: reference,
		files:     files,
		command:   []string{"sh"},
		env:       []string{"PATH=/bin"},
	}
}

// pauseImage puts the pause binary into an image.
func pauseImage(reference string, pause []byte) image {
	return image{
		reference:  reference,
		files:      []file{{name: "pause", mode: 0o755, content: pause}},
		entrypoint: []string{"/pause"},
	}
}

// descriptor, manifest and index are the OCI image format's, as far as needed.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type configuration struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       struct {
		Env        []string `json:"Env,omitempty"`
		Entrypoint []string `json:"Entrypoint,omitempty"`
		Cmd        []string `json:"Cmd,omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

const (
	mediaTypeIndex    = "application/vnd.oci.image.index.v1+json"
	mediaTypeManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaTypeConfig   = "application/vnd.oci.image.config.v1+json"
	mediaTypeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// assemble returns the blobs of images by digest, and the descriptors of their
// manifests.
func assemble(images ...image) (blobs map[string][]byte, manifests []descriptor, err error) {
	blobs = map[string][]byte{}
	add := func(mediaType string, content []byte) descriptor {
		sum := sha256.Sum256(content)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		blobs[digest] = content
		return descriptor{MediaType: mediaType, Digest: digest, Size: len(content)}
	}
	for _, img := range images {
		d, err := img.add(add)
		if err != nil {
			return nil, nil, fmt.Errorf("image %s: %w", img.reference, err)
		}
		manifests = append(manifests, d)
	}
	return blobs, manifests, nil
}

// writeArchive writes images as one OCI archive. The same input gives the same bytes: no times or
// owners of the machine enter it.
func writeArchive(w io.Writer, images ...image) error {
	blobs, manifests, err := assemble(images...)
	if err != nil {
		return err
	}
	indexJSON, err := json.Marshal(index{SchemaVersion: 2, MediaType: mediaTypeIndex, Manifests: manifests})
	if err != nil {
		return err
	}
	files := []file{
		{name: "oci-layout", mode: 0o644, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, content: indexJSON},
	}
	for digest, content := range blobs {
		name := path.Join("blobs/sha256", strings.TrimPrefix(digest, "sha256:"))
		files = append(files, file{name: name, mode: 0o644, content: content})
	}
	slices.SortFunc(files[2:], func(a, b file) int { return strings.Compare(a.name, b.name) })
	return writeTar(w, files)
}

// add stores the image's blobs and returns the manifest's descriptor under the names that
// containerd and the OCI layout look for.
func (img image) add(add func(mediaType string, content []byte) descriptor) (descriptor, error) {
	var layer bytes.Buffer
	if err := writeTar(&layer, img.files); err != nil {
		return descriptor{}, err
	}
	layerDescriptor := add(mediaTypeLayer, layer.Bytes())

	c := configuration{Architecture: runtime.GOARCH, OS: "linux"}
	c.Config.Env, c.Config.Entrypoint, c.Config.Cmd = img.env, img.entrypoint, img.command
	// The layer is not compressed, so its digest is also its diff ID.
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{layerDescriptor.Digest}
	configJSON, err := json.Marshal(c)
	if err != nil {
		return descriptor{}, err
	}
	manifestJSON, err := json.Marshal(manifest{
		SchemaVersion: 2,
		MediaType:     mediaTypeManifest,
		Config:        add(mediaTypeConfig, configJSON),
		Layers:        []descriptor{layerDescriptor},
	})
	if err != nil {
		return descriptor{}, err
	}
	d := add(mediaTypeManifest, manifestJSON)
	tag := img.reference[strings.LastIndexByte(img.reference, ':')+1:]
	d.Annotations = map[string]string{
		"io.containerd.image.name":          img.reference,
		"org.opencontainers.image.ref.name": tag,
	}
	return d, nil
}

// writeTar writes files in the order given.
func writeTar(w io.Writer, files []file) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		switch {
		case strings.HasSuffix(f.name, "/"):
			h.Typeflag = tar.TypeDir
		case f.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}
