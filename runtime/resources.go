package runtime

// Resources are what a container runs with, as a runtime reports it or as it was
// last told. Zero: not known, or not limited.
type Resources struct {
	// MilliCPURequest and MilliCPULimit are thousandths of a CPU. Reported ones come
	// back through cgroup values, so they may differ a little from what was asked.
	MilliCPURequest int64 `json:"milliCPURequest,omitempty"`
	MilliCPULimit   int64 `json:"milliCPULimit,omitempty"`
	// MemoryRequest and MemoryLimit are in bytes. No runtime reports the request.
	MemoryRequest int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   int64 `json:"memoryLimit,omitempty"`
}
