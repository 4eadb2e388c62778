// Package privatedir tells whether a folder or file belongs to its user alone: whether others could
// change its content, or replace it by another (spec/cleanup.md RD1).
package privatedir
