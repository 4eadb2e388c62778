package programs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/status"
)

type row struct {
	UID    types.UID
	Status *v1.PodStatus // nil: the row is deleted
}

// database is a table of pods in a file that only grows: each change is a line, which is on
// the disk before the engine hears that it is stored.
type database struct {
	file *os.File

	mu   sync.Mutex
	end  int64
	rows map[types.UID]*v1.PodStatus
}

// openDatabase reads the file, up to a line that a crash has cut short.
func openDatabase(t *testing.T, path string) *database {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	t.Cleanup(func() { _ = file.Close() })
	db := &database{file: file, rows: map[types.UID]*v1.PodStatus{}}
	lines := json.NewDecoder(file)
	for r := (row{}); lines.Decode(&r) == nil; r = (row{}) {
		db.put(r, lines.InputOffset())
	}
	if err := errors.Join(err, file.Truncate(db.end)); err != nil {
		t.Fatal(err)
	}
	return db
}

func (db *database) put(r row, end int64) {
	db.end, db.rows[r.UID] = end, r.Status
	if r.Status == nil {
		delete(db.rows, r.UID)
	}
}

// Store is the sink. After an error the engine comes again, with the newest status by then.
func (db *database) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	r := row{UID: u.UID, Status: u.Status}
	if u.Forgotten {
		r.Status = nil // the pod has ended and no source wants it
	}
	line, err := json.Marshal(r)
	db.mu.Lock()
	defer db.mu.Unlock()
	if _, writing := db.file.WriteAt(line, db.end); err != nil || writing != nil {
		return 0, errors.Join(err, writing, db.file.Truncate(db.end))
	}
	db.put(r, db.end+int64(len(line)))
	return status.Stored, db.file.Sync()
}

func (db *database) phases() map[types.UID]v1.PodPhase {
	db.mu.Lock()
	defer db.mu.Unlock()
	phases := map[types.UID]v1.PodPhase{}
	for uid, s := range db.rows {
		phases[uid] = s.Phase
	}
	return phases
}

// TestDatabase: rows appear, change and go, also across a crash of the agent.
func TestDatabase(t *testing.T) {
	path, db := filepath.Join(t.TempDir(), "pods.jsonl"), (*database)(nil)
	o := podwrighttest.Options{
		Programs: map[string]podwrighttest.Program{"job": {RunsFor: time.Minute, ExitsWith: 3}},
		Configure: func(c *podwright.Config) { // each agent opens what the former one left
			db = openDatabase(t, path)
			c.Observe.Sinks = append(c.Observe.Sinks, db)
		},
	}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		web, job := podwrighttest.Pod("web"), podwrighttest.Pod("job", "job")
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		rows := func(want map[types.UID]v1.PodPhase) {
			n.Wait("the rows", func() (err error) {
				if got := db.phases(); !maps.Equal(got, want) {
					err = fmt.Errorf("they are %v, want %v", got, want)
				}
				return err
			})
		}
		both := map[types.UID]v1.PodPhase{web.UID: v1.PodRunning, job.UID: v1.PodRunning}
		n.Add(web, job)
		rows(both)
		n.Crash()
		_, _ = db.file.WriteAt([]byte(`{"UID":"uid-web","Sta`), db.end) // a write is cut off
		db = openDatabase(t, path)
		rows(both)
		n.Advance(2 * time.Minute) // the job ends while no agent runs
		n.Start()
		rows(map[types.UID]v1.PodPhase{web.UID: v1.PodRunning, job.UID: v1.PodFailed})
		n.Remove("web", "job")
		rows(map[types.UID]v1.PodPhase{})
	})
}
