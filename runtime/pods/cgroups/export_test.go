package cgroups

// CheckDriver checks options for a machine where the file is there if systemd runs it.
func CheckDriver(o Options, systemdRuns string) error { return o.checkDriver(systemdRuns) }
