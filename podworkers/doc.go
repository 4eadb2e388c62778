// Package podworkers runs the life of every pod: one record per pod UID that
// decides when a pod may be set up, must be stopped, and is gone. You give it
// desired pods ([Workers.UpdatePod]) and a [PodSyncer] that does the work; it
// calls the syncer at most once at a time per pod, in the right phase, again
// after errors, and tells the rest of the agent what may be cleaned up.
package podworkers
