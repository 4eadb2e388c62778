// Package traces shows how the OpenTelemetry SDK gets the spans of an engine: see its Example.
package traces
