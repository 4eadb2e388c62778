// Package tracingtest has a tracer provider for tests that remembers the spans.
package tracingtest
