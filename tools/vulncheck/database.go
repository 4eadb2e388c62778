package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// errNoAnswer says that the database's server does not answer: an offline machine is not a vulnerability.
var errNoAnswer = errors.New("does not answer")

// maxAge is how old a database may be. The Go project's changes every few days.
const maxAge = 90 * 24 * time.Hour

// available reports why a database cannot be used.
func available(ctx context.Context, database string) error {
	u, err := url.Parse(database)
	if err != nil {
		return err
	}
	switch u.Scheme {
	case "file":
		if _, err := os.Stat(filepath.Join(u.Path, "index", "modules.json")); err != nil {
			return fmt.Errorf("%s is no database of vulnerabilities: %w", database, err)
		}
		return nil
	case "http", "https":
		return answers(ctx, strings.TrimSuffix(database, "/"))
	}
	return fmt.Errorf("the database %s is neither a file nor an http URL", database)
}

func answers(ctx context.Context, database string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, database+"/index/db.json", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s %w: %w", database, errNoAnswer, err)
	}
	defer response.Body.Close() //nolint:errcheck // only the status counts
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %w as a database: status %d", database, errNoAnswer, response.StatusCode)
	}
	return nil
}

// tooOld returns an error if a database is too old to be useful.
func tooOld(modified, now time.Time) error {
	if now.Sub(modified) <= maxAge {
		return nil
	}
	return fmt.Errorf("the database is of %s, more than %d days old: fetch a newer one", modified.Format(time.DateOnly), int(maxAge.Hours()/24))
}
