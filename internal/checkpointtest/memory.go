package checkpointtest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/checkpoint"
)

// Memory is a [checkpoint.Store] in memory, for tests and simulations of many nodes: it makes no
// files and does no work per record. An engine that gets the Memory of an earlier one starts
// as after a kill. The zero value is empty. Methods are safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	records map[types.UID]*checkpoint.Record
}

var _ checkpoint.Store = (*Memory)(nil)

// Load implements [checkpoint.Store].
func (m *Memory) Load(context.Context) (checkpoint.Loaded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return checkpoint.Loaded{Records: slices.Collect(maps.Values(m.records))}, nil
}

// Write implements [checkpoint.Store].
func (m *Memory) Write(_ context.Context, records []*checkpoint.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records = map[types.UID]*checkpoint.Record{}
	}
	for _, r := range records {
		m.records[r.UID] = r
	}
	return nil
}

// Delete implements [checkpoint.Store].
func (m *Memory) Delete(_ context.Context, uids []types.UID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uid := range uids {
		delete(m.records, uid)
	}
	return nil
}
