package cri

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// message is a pointer to a protobuf message.
type message[Item any] interface {
	*Item
	proto.Message
}

// recall keeps the objects of the latest complete list of one kind. The next list reuses those that have not
// changed, so that on an idle node it decodes nothing and allocates nothing for pods (spec/pleg.md B6).
type recall[Item any, P message[Item]] struct {
	seed maphash.Seed

	mu    sync.Mutex
	lists uint64
	known map[uint64]recalled[P]
}

// recalled is an object, with the number of the latest list that had it.
type recalled[P any] struct {
	item P
	list uint64
}

func newRecall[Item any, P message[Item]]() *recall[Item, P] {
	return &recall[Item, P]{seed: maphash.MakeSeed(), known: map[uint64]recalled[P]{}}
}

// of makes a complete list with a codec that reuses known objects, and forgets those that the list lacks.
func (r *recall[Item, P]) of(list func(codec grpc.CallOption) ([]P, error)) ([]P, error) {
	codec := r.begin()
	all, err := list(grpc.ForceCodecV2(codec))
	if err == nil {
		codec.end()
	}
	return all, err
}

// begin begins a complete list.
func (r *recall[Item, P]) begin() *recallingCodec[Item, P] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists++
	return &recallingCodec[Item, P]{CodecV2: encoding.GetCodecV2(grpcproto.Name), recall: r, list: r.lists}
}

// get decodes an object unless it is known. first reports whether this is its first occurrence in the list.
func (r *recall[Item, P]) get(encoded []byte, list uint64) (item P, first bool, err error) {
	key, err := r.print(encoded)
	if err != nil {
		return nil, false, err
	}
	if item, first = r.find(key, list); item != nil {
		return item, first, nil
	}
	item = new(Item)
	if err := proto.Unmarshal(encoded, item); err != nil {
		return nil, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[key] = recalled[P]{item, list}
	return item, true, nil
}

func (r *recall[Item, P]) find(key, list uint64) (item P, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, found := r.known[key]
	if !found {
		return nil, false
	}
	r.known[key] = recalled[P]{known.item, max(known.list, list)}
	return known.item, known.list < list
}

// print returns the sum of the hashes of an encoded object's fields. It is a sum because runtimes write the
// entries of a map, each a field of its own, in a different order each time.
func (r *recall[Item, P]) print(encoded []byte) (sum uint64, err error) {
	for len(encoded) > 0 {
		_, _, size := protowire.ConsumeField(encoded)
		if size < 0 {
			return 0, protowire.ParseError(size)
		}
		sum += maphash.Bytes(r.seed, encoded[:size])
		encoded = encoded[size:]
	}
	return sum, nil
}

// recallingCodec is the codec of one list call. Consecutive calls may use it.
type recallingCodec[Item any, P message[Item]] struct {
	encoding.CodecV2
	recall *recall[Item, P]
	list   uint64
	found  int // different objects

	encoded []byte // one object
}

// Unmarshal implements encoding.CodecV2. It never holds the whole list in one piece: for a hundred pods or more
// that would take a buffer of 1 MiB.
func (c *recallingCodec[Item, P]) Unmarshal(data mem.BufferSlice, v any) error {
	into, ok := listOf(v).(*[]P)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	rest := data.Reader()
	defer rest.Close()
	for rest.Remaining() > 0 {
		tag, err := binary.ReadUvarint(rest)
		if err != nil {
			return err
		}
		number, kind := protowire.DecodeTag(tag)
		if number != listField || kind != protowire.BytesType {
			*into = nil // a later CRI version says more
			return c.CodecV2.Unmarshal(data, v)
		}
		size, err := binary.ReadUvarint(rest)
		if err != nil || size > uint64(rest.Remaining()) {
			return cmp.Or(err, io.ErrUnexpectedEOF)
		}
		c.encoded = slices.Grow(c.encoded[:0], int(size))[:size]
		if _, err := io.ReadFull(rest, c.encoded); err != nil {
			return err
		}
		item, first, err := c.recall.get(c.encoded, c.list)
		if err != nil {
			return err
		}
		if first {
			c.found++
		}
		*into = append(*into, item)
	}
	return nil
}

// end, called once the list is complete, forgets the objects that the list lacks.
func (c *recallingCodec[Item, P]) end() {
	c.recall.mu.Lock()
	defer c.recall.mu.Unlock()
	if c.found == len(c.recall.known) {
		return
	}
	for key, known := range c.recall.known {
		if known.list < c.list {
			delete(c.recall.known, key)
		}
	}
}

// listField is the number of the list in the answers to list calls.
const listField = 1

// listOf returns the list of an answer.
func listOf(answer any) any {
	switch answer := answer.(type) {
	case *runtimeapi.ListPodSandboxResponse:
		return &answer.Items
	case *runtimeapi.StreamPodSandboxesResponse:
		return &answer.PodSandboxes
	case *runtimeapi.ListContainersResponse:
		return &answer.Containers
	case *runtimeapi.StreamContainersResponse:
		return &answer.Containers
	}
	return nil
}
