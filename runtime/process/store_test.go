//go:build linux

package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podwright/podwright/internal/durable"
)

// A supervisor on a slow disk may still write the record that the agent has stopped
// waiting for. Neither takes the other's unfinished file.
func TestRecordsOfSupervisorAndAgentDoNotMix(t *testing.T) {
	dir := t.TempDir()
	unfinished := filepath.Join(dir, startedFile+".0"+durable.Suffix)
	file, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	must(t, err)
	defer file.Close()

	want := startedRecord{StartedAt: time.Unix(1, 0).UTC()}
	must(t, writeRecord(dir, startedFile, want))
	_, err = file.WriteString(`{}`)
	must(t, err)

	var got startedRecord
	if ok, err := readRecord(dir, startedFile, &got); err != nil || !ok || got != want {
		t.Errorf("record %v, %v, %v", got, ok, err)
	}
	if err := os.Rename(unfinished, filepath.Join(dir, startedFile)); err != nil {
		t.Errorf("the other writer cannot finish: %v", err)
	}
}
