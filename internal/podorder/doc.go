// Package podorder puts the objects of a pod in order, the latest first, and finds its addresses (spec/runtime.md 1.3, 1.7).
package podorder
