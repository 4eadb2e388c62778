package userns

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Range is Count IDs from First on.
type Range struct{ First, Count uint32 }

// Delegated returns the range that the texts of /etc/subuid and /etc/subgid give to user: a
// name, or a number if they use numbers. They must give it the same range. found is false if
// neither names the user.
func Delegated(subuid, subgid, user string) (delegated Range, found bool, err error) {
	uids, hasUIDs, err := rangeOf(subuid, user)
	if err != nil {
		return Range{}, false, fmt.Errorf("/etc/subuid: %w", err)
	}
	gids, hasGIDs, err := rangeOf(subgid, user)
	switch {
	case err != nil:
		return Range{}, false, fmt.Errorf("/etc/subgid: %w", err)
	case uids != gids || hasUIDs != hasGIDs:
		return Range{}, false, fmt.Errorf("/etc/subuid and /etc/subgid must give user %q the same range", user)
	}
	return uids, hasUIDs, nil
}

// rangeOf finds the line of a user: its name, the first ID and how many there are, separated by colons.
func rangeOf(text, user string) (r Range, found bool, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if fields[0] != user {
			continue
		}
		if found {
			return Range{}, false, fmt.Errorf("it has more than one range for user %q; pods use one", user)
		}
		if r, err = parseRange(fields[1:]); err != nil {
			return Range{}, false, fmt.Errorf("the line of user %q: %w", user, err)
		}
		found = true
	}
	return r, found, nil
}

func parseRange(fields []string) (Range, error) {
	if len(fields) != 2 {
		return Range{}, errors.New("it must be USER:FIRST:COUNT")
	}
	var numbers [2]uint32
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return Range{}, fmt.Errorf("%q is no number of 32 bits", field)
		}
		numbers[i] = uint32(n)
	}
	return Range{First: numbers[0], Count: numbers[1]}, nil
}
