package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// maxUserFile bounds /etc/passwd and /etc/group of a root file system.
const maxUserFile = 4 << 20

// UserByName resolves a user name of the root's /etc/passwd, with the groups
// /etc/group adds.
func (r *Root) UserByName(name string) (*User, error) {
	return r.user(func(fields []string) bool { return fields[0] == name }, fmt.Sprintf("user %q", name))
}

// UserByID returns a user with the group and the groups the root's files give it;
// one that is not in them has group 0 and no others.
func (r *Root) UserByID(uid uint32) (*User, error) {
	text := strconv.FormatUint(uint64(uid), 10)
	u, err := r.user(func(fields []string) bool { return fields[2] == text }, "user "+text)
	if errors.Is(err, fs.ErrNotExist) {
		return &User{UID: uid}, nil
	}
	return u, err
}

func (r *Root) user(match func(fields []string) bool, what string) (*User, error) {
	var u *User
	var name string
	err := r.lines("/etc/passwd", 4, func(fields []string) error {
		if u != nil || !match(fields) {
			return nil
		}
		uid, err1 := strconv.ParseUint(fields[2], 10, 32)
		gid, err2 := strconv.ParseUint(fields[3], 10, 32)
		u, name = &User{UID: uint32(uid), GID: uint32(gid)}, fields[0]
		return errors.Join(err1, err2)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if u == nil {
		return nil, fmt.Errorf("%s in /etc/passwd: %w", what, fs.ErrNotExist)
	}
	err = r.lines("/etc/group", 4, func(fields []string) error {
		if !slices.Contains(strings.Split(fields[3], ","), name) {
			return nil
		}
		gid, err := strconv.ParseUint(fields[2], 10, 32)
		u.Groups = append(u.Groups, uint32(gid))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("groups of %s: %w", what, err)
	}
	return u, nil
}

// lines calls f with the colon-separated fields of each line that has at least n.
func (r *Root) lines(name string, n int, f func(fields []string) error) error {
	data, err := r.ReadFile(name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < n || strings.HasPrefix(line, "#") {
			continue
		}
		if err := f(fields); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
