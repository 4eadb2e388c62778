package source

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// allVolumes checks the volumes and remembers their names for the mounts.
func (v *validator) allVolumes(volumes []v1.Volume, p *field.Path) {
	v.volumes = sets.New[string]()
	for i := range volumes {
		volume, p := &volumes[i], p.Index(i)
		v.name(p.Child("name"), volume.Name, validation.IsDNS1123Label)
		if v.volumes.Has(volume.Name) {
			v.add(field.Duplicate(p.Child("name"), volume.Name))
		}
		v.volumes.Insert(volume.Name)
		if kinds(&volume.VolumeSource) != 1 {
			v.add(field.Invalid(p, volume.Name, "exactly one kind of volume must be given"))
		}
		if h := volume.HostPath; h != nil {
			v.hostPath(h, p.Child("hostPath"))
		}
		if e := volume.EmptyDir; e != nil {
			if e.SizeLimit != nil && e.SizeLimit.Sign() < 0 {
				v.add(field.Invalid(p.Child("emptyDir", "sizeLimit"), e.SizeLimit.String(), "must not be negative"))
			}
			if e.Mode != nil && (*e.Mode < 0 || *e.Mode > 0o1777) {
				v.add(field.Invalid(p.Child("emptyDir", "mode"), *e.Mode, "must be between 0 and 01777"))
			}
			if e.Medium != v1.StorageMediumDefault && e.Medium != v1.StorageMediumMemory && !strings.HasPrefix(string(e.Medium), string(v1.StorageMediumHugePages)) {
				v.add(field.NotSupported(p.Child("emptyDir", "medium"), e.Medium, []v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory, v1.StorageMediumHugePages}))
			}
		}
		if m := volume.Image; m != nil && m.Reference == "" {
			v.add(field.Required(p.Child("image", "reference"), "must be set"))
		}
	}
}

// kinds counts the kinds of volume that are set.
func kinds(s *v1.VolumeSource) int {
	n := 0
	value := reflect.ValueOf(s).Elem()
	for i := range value.NumField() {
		if !value.Field(i).IsNil() {
			n++
		}
	}
	return n
}

func (v *validator) hostPath(h *v1.HostPathVolumeSource, p *field.Path) {
	if !path.IsAbs(h.Path) || hasBackstep(h.Path) {
		v.add(field.Invalid(p.Child("path"), h.Path, `must be an absolute path without ".."`))
	}
	if h.Type != nil {
		v.oneOf(p.Child("type"), string(*h.Type), string(v1.HostPathUnset), string(v1.HostPathDirectoryOrCreate),
			string(v1.HostPathDirectory), string(v1.HostPathFileOrCreate), string(v1.HostPathFile),
			string(v1.HostPathSocket), string(v1.HostPathCharDev), string(v1.HostPathBlockDev))
	}
}

// probe checks a probe that may want at most so many successes in a row.
func (v *validator) probe(probe *v1.Probe, p *field.Path, successes int32) {
	if probe == nil {
		return
	}
	v.exactlyOne(p, probe.Exec != nil, probe.HTTPGet != nil, probe.TCPSocket != nil, probe.GRPC != nil)
	for _, x := range []struct {
		name       string
		value, min int32
	}{
		{"initialDelaySeconds", probe.InitialDelaySeconds, 0},
		{"timeoutSeconds", probe.TimeoutSeconds, 1},
		{"periodSeconds", probe.PeriodSeconds, 1},
		{"successThreshold", probe.SuccessThreshold, 1},
		{"failureThreshold", probe.FailureThreshold, 1},
	} {
		if x.value < x.min {
			v.add(field.Invalid(p.Child(x.name), x.value, "is too small"))
		}
	}
	if probe.SuccessThreshold > successes {
		v.add(field.Invalid(p.Child("successThreshold"), probe.SuccessThreshold, fmt.Sprintf("must be %d", successes)))
	}
	v.seconds(p.Child("terminationGracePeriodSeconds"), probe.TerminationGracePeriodSeconds, 1)
	v.exec(probe.Exec, p.Child("exec"))
	v.httpGet(probe.HTTPGet, p.Child("httpGet"))
	if probe.TCPSocket != nil {
		v.portRef(probe.TCPSocket.Port, p.Child("tcpSocket", "port"))
	}
	if g := probe.GRPC; g != nil {
		v.portRef(intstr.FromInt32(g.Port), p.Child("grpc", "port"))
		if g.Mode != nil && *g.Mode != "" {
			v.oneOf(p.Child("grpc", "mode"), string(*g.Mode), string(v1.GRPCProbeModePlaintext), string(v1.GRPCProbeModeTLS))
		}
	}
}

func (v *validator) lifecycle(l *v1.Lifecycle, p *field.Path) {
	if l == nil {
		return
	}
	for _, x := range []struct {
		name    string
		handler *v1.LifecycleHandler
	}{{"postStart", l.PostStart}, {"preStop", l.PreStop}} {
		h, p := x.handler, p.Child(x.name)
		if h == nil {
			continue
		}
		v.exactlyOne(p, h.Exec != nil, h.HTTPGet != nil, h.TCPSocket != nil, h.Sleep != nil)
		v.exec(h.Exec, p.Child("exec"))
		v.httpGet(h.HTTPGet, p.Child("httpGet"))
		if h.TCPSocket != nil {
			v.portRef(h.TCPSocket.Port, p.Child("tcpSocket", "port"))
		}
		if h.Sleep != nil {
			v.seconds(p.Child("sleep", "seconds"), &h.Sleep.Seconds, 0)
		}
	}
}

func (v *validator) exec(e *v1.ExecAction, p *field.Path) {
	if e != nil && len(e.Command) == 0 {
		v.add(field.Required(p.Child("command"), "must be set"))
	}
}

func (v *validator) httpGet(h *v1.HTTPGetAction, p *field.Path) {
	if h == nil {
		return
	}
	v.portRef(h.Port, p.Child("port"))
	v.oneOf(p.Child("scheme"), string(h.Scheme), string(v1.URISchemeHTTP), string(v1.URISchemeHTTPS))
	if h.Protocol != nil && *h.Protocol != "" {
		v.oneOf(p.Child("protocol"), string(*h.Protocol), string(v1.HTTPProtocolHTTP1), string(v1.HTTPProtocolHTTP2))
		if *h.Protocol == v1.HTTPProtocolHTTP2 && (h.Scheme != v1.URISchemeHTTP || h.Host != "") {
			v.add(field.Forbidden(p.Child("protocol"), "HTTP2 is possible only with the scheme HTTP and without a host"))
		}
	}
	for i, header := range h.HTTPHeaders {
		for _, message := range validation.IsHTTPHeaderName(header.Name) {
			v.add(field.Invalid(p.Child("httpHeaders").Index(i).Child("name"), header.Name, message))
		}
	}
}

// portRef checks a port given by number or name.
func (v *validator) portRef(port intstr.IntOrString, p *field.Path) {
	if port.Type == intstr.String {
		for _, message := range validation.IsValidPortName(port.StrVal) {
			v.add(field.Invalid(p, port.StrVal, message))
		}
		return
	}
	for _, message := range validation.IsValidPortNum(port.IntValue()) {
		v.add(field.Invalid(p, port.IntVal, message))
	}
}

// apiReferences returns an error for every reference of pod to an object that only an
// API server has (D8). If objects is set, config maps and secrets need no API server.
func apiReferences(pod *v1.Pod, objects bool) field.ErrorList {
	var errors field.ErrorList
	refuse := func(set bool, p *field.Path, what string) {
		if set {
			errors = append(errors, field.Forbidden(p, "a pod from a manifest cannot refer to "+what+" of the API server"))
		}
	}
	object := func(set bool, p *field.Path, what string) {
		if set && !objects {
			errors = append(errors, field.Forbidden(p, "a pod from a manifest cannot refer to "+what+": no source of config maps and secrets is configured"))
		}
	}
	spec, p := &pod.Spec, field.NewPath("spec")
	refuse(spec.ServiceAccountName != "", p.Child("serviceAccountName"), "a service account")
	object(len(spec.ImagePullSecrets) > 0, p.Child("imagePullSecrets"), "secrets")
	refuse(len(spec.ResourceClaims) > 0, p.Child("resourceClaims"), "resource claims")
	for i := range spec.Volumes {
		s, p := &spec.Volumes[i].VolumeSource, p.Child("volumes").Index(i)
		object(s.Secret != nil, p.Child("secret"), "a secret")
		object(s.ConfigMap != nil, p.Child("configMap"), "a config map")
		refuse(s.PersistentVolumeClaim != nil, p.Child("persistentVolumeClaim"), "a claim")
		refuse(s.Ephemeral != nil, p.Child("ephemeral"), "a claim")
		object(s.CSI != nil && s.CSI.NodePublishSecretRef != nil, p.Child("csi", "nodePublishSecretRef"), "a secret")
		if s.Projected == nil {
			continue
		}
		for j := range s.Projected.Sources {
			source, p := &s.Projected.Sources[j], p.Child("projected", "sources").Index(j)
			object(source.Secret != nil, p.Child("secret"), "a secret")
			object(source.ConfigMap != nil, p.Child("configMap"), "a config map")
			refuse(source.ServiceAccountToken != nil, p.Child("serviceAccountToken"), "a service account")
			refuse(source.ClusterTrustBundle != nil, p.Child("clusterTrustBundle"), "a trust bundle")
			refuse(source.PodCertificate != nil, p.Child("podCertificate"), "a signer")
		}
	}
	eachContainer(spec, func(c *v1.Container, list string, i int) {
		p := p.Child(list).Index(i)
		for j := range c.EnvFrom {
			object(c.EnvFrom[j].ConfigMapRef != nil, p.Child("envFrom").Index(j).Child("configMapRef"), "a config map")
			object(c.EnvFrom[j].SecretRef != nil, p.Child("envFrom").Index(j).Child("secretRef"), "a secret")
		}
		for j := range c.Env {
			if from := c.Env[j].ValueFrom; from != nil {
				p := p.Child("env").Index(j).Child("valueFrom")
				object(from.ConfigMapKeyRef != nil, p.Child("configMapKeyRef"), "a config map")
				object(from.SecretKeyRef != nil, p.Child("secretKeyRef"), "a secret")
			}
		}
	})
	return errors
}
