// Package cni writes the configuration of the network that the pods of tests are in, for any
// runtime of this machine.
package cni
