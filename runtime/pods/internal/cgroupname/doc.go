// Package cgroupname has the names of pods' cgroups, as the drivers cgroupfs and
// systemd write them (spec/runtime.md 3.3). It names; it touches no file.
//
//	cgroupfs   kubepods/burstable/podUID
//	systemd    kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice
package cgroupname
