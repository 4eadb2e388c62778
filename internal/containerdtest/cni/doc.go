// Package cni writes the network configuration for the pods of tests, for any runtime on this
// machine.
package cni
