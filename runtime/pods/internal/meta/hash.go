package meta

import (
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
)

// HashVersion names the algorithm of [Hash]. A container with another version cannot be
// compared and counts as unchanged, so that an engine with a new algorithm restarts no
// container.
const HashVersion = "1"

const (
	fnvPrime32 = 16777619
	// afterPrefix is the FNV-1a state after "([]uint8)[" and the printed bytes
	// of {"image":", which every text begins with.
	afterPrefix = 0x323ecb63
	hexDigits   = "0123456789abcdef"
)

// Hash identifies a container's definition by its name and image (spec/runtime.md 2.5).
// It allocates nothing, because it runs for every container on every sync.
//
// The kubelet's value is the FNV-1a sum of the printed form of a byte slice
// that holds JSON; both are produced on the fly here.
func Hash(c *v1.Container) uint64 {
	h := printed{sum: afterPrefix, begun: true}
	h.text(c.Image)
	h.json(`","name":"`)
	h.text(c.Name)
	h.json(`"}`)
	h.raw("]")
	return uint64(h.sum)
}

// printed sums a byte slice as fmt prints it: decimal values between spaces.
type printed struct {
	sum   uint32
	begun bool
}

// raw sums s as it is.
func (p *printed) raw(s string) {
	for i := range len(s) {
		p.sum = (p.sum ^ uint32(s[i])) * fnvPrime32
	}
}

// byte sums one byte of the JSON text.
func (p *printed) byte(b byte) {
	sum := p.sum
	if p.begun {
		sum = (sum ^ ' ') * fnvPrime32
	}
	p.begun = true
	if b >= 100 {
		sum = (sum ^ uint32('0'+b/100)) * fnvPrime32
	}
	if b >= 10 {
		sum = (sum ^ uint32('0'+b/10%10)) * fnvPrime32
	}
	p.sum = (sum ^ uint32('0'+b%10)) * fnvPrime32
}

// json sums JSON text that needs no escaping.
func (p *printed) json(s string) {
	for i := range len(s) {
		p.byte(s[i])
	}
}

// text sums the content of a JSON string with Go's HTML-safe escapes.
func (p *printed) text(s string) {
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			p.ascii(b)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			p.json(`\ufffd`)
		case r == '\u2028':
			p.json(`\u2028`)
		case r == '\u2029':
			p.json(`\u2029`)
		default:
			p.json(s[i : i+size])
		}
		i += size
	}
}

// ascii sums one ASCII character, escaped where JSON or HTML asks for it.
func (p *printed) ascii(b byte) {
	switch b {
	case '"', '\\':
		p.byte('\\')
		p.byte(b)
	case '\b':
		p.json(`\b`)
	case '\f':
		p.json(`\f`)
	case '\n':
		p.json(`\n`)
	case '\r':
		p.json(`\r`)
	case '\t':
		p.json(`\t`)
	case '<', '>', '&':
		p.unicode(b)
	default:
		if b < ' ' {
			p.unicode(b)
			return
		}
		p.byte(b)
	}
}

// unicode sums a \u00xx escape.
func (p *printed) unicode(b byte) {
	p.json(`\u00`)
	p.byte(hexDigits[b>>4])
	p.byte(hexDigits[b&15])
}
