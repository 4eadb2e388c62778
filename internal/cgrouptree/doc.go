// Package cgrouptree knows how cgroups are mounted, on either version ([Examine]), and finds those of containers by their
// IDs ([Finder]).
package cgrouptree
