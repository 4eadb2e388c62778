package fields

func volumeRows() []Row {
	const files, filesT = "runtime/pods/internal/payload/payload.go Files", "runtime/pods/internal/payload TestFilesOfEverySource"
	const own, ownT = "runtime/pods/ownvolumes.go emptyDir", podsT + "TestDiskEmptyDirLimit"
	const maker, able = "runtime/pods/podvolumes.go setUpVolume", "syncloop/admission/abilities.go Able"
	const foreign = "FailedMount, unless a volume manager makes it"
	const issued, issuedT = "runtime/pods/internal/payload/projections.go issued", "runtime/pods/internal/payload TestProjectionsBecomeFiles"
	const issuer = "where Config.Pods.Projections makes it; otherwise its volume waits, and a manifest is refused"
	const ableT = "syncloop/admission TestAbleRefusesWhatTheNodeCannotDo"
	const allowed = "where config maps and secrets can be read; otherwise a manifest is refused"
	return []Row{
		{"Volume", "name", Honoured, "", "runtime/pods/podvolumes.go setUpVolumes", podsT + "TestVolumeMounts"},
		{"VolumeSource", "hostPath", Honoured, "", "runtime/pods/internal/poddir/hostpath.go HostPath", "runtime/pods/internal/poddir TestHostPath"},
		{"VolumeSource", "emptyDir", Honoured, "", own, ownT},
		{"VolumeSource", "configMap secret", Honoured, allowed, files, filesT},
		{"VolumeSource", "downwardAPI projected", Honoured, "", files, filesT},
		{"VolumeSource", "image", Honoured, "", "runtime/pods/imagevolumes.go pullImageVolumes", podsT + "TestImageVolumeIsNamedAsInThePod"},
		{"VolumeSource", "persistentVolumeClaim ephemeral", Refused, "cannot refer to a claim", "syncloop/source/validatevolume.go apiReferences", refusals},
		{"VolumeSource", "csi nfs iscsi fc flexVolume rbd cephfs glusterfs gitRepo", Waits, foreign, maker, waits},
		{"VolumeSource", "gcePersistentDisk awsElasticBlockStore cinder flocker azureFile vsphereVolume quobyte azureDisk photonPersistentDisk portworxVolume scaleIO storageos", Waits, foreign, maker, waits},
		{"HostPathVolumeSource", "path type", Honoured, "", "runtime/pods/internal/poddir/hostpath.go HostPath", "runtime/pods/internal/poddir TestHostPath"},
		{"EmptyDirVolumeSource", "medium", Honoured, "huge pages wait: FailedMount", own, podsT + "TestMemoryEmptyDir"},
		{"EmptyDirVolumeSource", "sizeLimit", Honoured, "by the kernel in memory, by eviction on the disk", "internal/node/eviction.go limitedVolumes", engineT + "TestStorageLimitsHoldOverARestart"},
		{"EmptyDirVolumeSource", "mode", Honoured, "", "runtime/pods/ownvolumes.go emptyDirMode", podsT + "TestEmptyDirMode"},
		{"SecretVolumeSource", "secretName items defaultMode optional", Honoured, "", files, filesT},
		{"SecretVolumeSource", "defaultUser", Refused, "UnexpectedAdmissionError", able, refusals},
		{"ConfigMapVolumeSource", "items defaultMode optional", Honoured, "", files, filesT},
		{"ConfigMapVolumeSource", "defaultUser", Refused, "UnexpectedAdmissionError", able, refusals},
		{"DownwardAPIVolumeSource", "items defaultMode", Honoured, "", files, filesT},
		{"DownwardAPIVolumeSource", "defaultUser", Refused, "UnexpectedAdmissionError", able, refusals},
		{"DownwardAPIVolumeFile", "path fieldRef resourceFieldRef mode", Honoured, "", files, filesT},
		{"DownwardAPIVolumeFile", "user", Refused, "UnexpectedAdmissionError", able, refusals},
		{"KeyToPath", "key path mode", Honoured, "", files, filesT},
		{"KeyToPath", "user", Refused, "UnexpectedAdmissionError", able, refusals},
		{"ProjectedVolumeSource", "sources defaultMode", Honoured, "", files, filesT},
		{"ProjectedVolumeSource", "defaultUser", Refused, "UnexpectedAdmissionError", able, refusals},
		{"VolumeProjection", "secret configMap", Honoured, allowed, files, filesT},
		{"VolumeProjection", "downwardAPI", Honoured, "", files, filesT},
		{"VolumeProjection", "serviceAccountToken clusterTrustBundle podCertificate", Honoured, issuer, issued, issuedT},
		{"ServiceAccountTokenProjection", "audience expirationSeconds", Honoured, "by Config.Pods.Projections.Token", "runtime/pods/projections.go Token", podsT + "TestProjectionsAreSecretFiles"},
		{"ServiceAccountTokenProjection", "path", Honoured, "", issued, issuedT},
		{"ServiceAccountTokenProjection", "user", Refused, "UnexpectedAdmissionError", able, ableT},
		{"ClusterTrustBundleProjection", "name signerName labelSelector", Honoured, "by Config.Pods.Projections.TrustBundle", "runtime/pods/projections.go TrustBundle", podsT + "TestProjectionsAreSecretFiles"},
		{"ClusterTrustBundleProjection", "optional path", Honoured, "", issued, issuedT},
		{"ClusterTrustBundleProjection", "user", Refused, "UnexpectedAdmissionError", able, ableT},
		{"PodCertificateProjection", "signerName keyType maxExpirationSeconds userAnnotations", Honoured, "by Config.Pods.Projections.PodCertificate", "runtime/pods/projections.go PodCertificate", podsT + "TestProjectionsAreSecretFiles"},
		{"PodCertificateProjection", "credentialBundlePath keyPath certificateChainPath", Honoured, "", issued, issuedT},
		{"PodCertificateProjection", "user", Refused, "UnexpectedAdmissionError", able, ableT},
		{"SecretProjection", "items optional", Honoured, "", files, filesT},
		{"ConfigMapProjection", "items optional", Honoured, "", files, filesT},
		{"DownwardAPIProjection", "items", Honoured, "", files, filesT},
		{"ImageVolumeSource", "reference pullPolicy", Honoured, "", "runtime/pods/imagevolumes.go pullImageVolumes", podsT + "TestImageVolumeFailures"},
	}
}
