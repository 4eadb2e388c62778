// Package instrument builds the OpenTelemetry instruments of a room. It is the one place that knows
// default meters, units, histogram boundaries, and how to register and withdraw values that are
// read on demand.
package instrument
