package outbound

// MaxHeaders is how many bytes of headers an answer to a probe or a hook may have: more of them are an
// error. MaxBody is how much of its body is read (spec/probe.md 5.6).
const (
	MaxHeaders = 256 << 10
	MaxBody    = 10240
)
