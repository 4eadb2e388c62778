// Package instrumenttest has a meter for tests that shows what was recorded.
package instrumenttest
