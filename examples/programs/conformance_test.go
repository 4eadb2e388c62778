package programs_test

import (
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/syncertest"
	"github.com/podwright/podwright/status/statustest"
)

// The parts that the programs make for themselves keep the rules of what they stand for.

func TestDatabaseIsASink(t *testing.T) {
	statustest.Run(t, func(t *testing.T) statustest.Subject {
		db := openDatabase(t, filepath.Join(t.TempDir(), "pods"))
		return statustest.Subject{Sink: db, Stored: func(uid types.UID) []v1.PodStatus {
			db.mu.Lock()
			defer db.mu.Unlock()
			if s := db.rows[uid]; s != nil {
				return []v1.PodStatus{*s}
			}
			return nil
		}}
	})
}

func TestProcessesAreASyncer(t *testing.T) {
	syncertest.Run(t, func(*testing.T) syncertest.Subject {
		p := &processes{all: map[types.UID]*child{}, started: func(*child) {}, ended: func(types.UID) bool { return true }}
		return syncertest.Subject{
			Syncer: p,
			Pod:    func(name string) *v1.Pod { return command(name, "exec sleep 1000", v1.RestartPolicyAlways) },
			Ending: func(name string) *v1.Pod { return command(name, "exit 0", v1.RestartPolicyNever) },
			Running: func(uid types.UID) int {
				p.mu.Lock()
				defer p.mu.Unlock()
				if c := p.all[uid]; c == nil || c.life.Err() != nil {
					return 0
				}
				return 1
			},
		}
	})
}
