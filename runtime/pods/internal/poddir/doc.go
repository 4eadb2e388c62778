// Package poddir owns the folders of pods on disk:
//
//	<pods>/<uid>/                                   0750
//	    etc-hosts                                   0644
//	    containers/<name>/<random>                  termination messages
//	    volumes/kubernetes.io~empty-dir/<volume>/   emptyDir content, or memory
//	    volumes/kubernetes.io~secret/<volume>/      likewise configmap, downward-api
//	        ..data -> ..<time>/                     and projected: files that
//	        <key> -> ..data/<key>                   change in one step
//	        <name>                                  what containers mount on
//	    volume-subpaths/<volume>/<container>/<n>    held sub-paths
//	<pods>.removed/<random>/                        volumes that are being removed
//
// Names come from manifests and are untrusted: every one is checked to be a
// plain path element, and all work below the folder of the pods goes through
// directory handles, so that neither a name nor a link planted by a container
// leads outside. Removal never follows a link and never enters a mount point
// (spec/cleanup.md 4).
package poddir
