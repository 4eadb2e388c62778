#!/usr/bin/env bash
# Runs a command with its temporary files in memory, if there is room for them.
#
#   tools/ci/inmemory.sh COMMAND...
#
# The tests write many small files and sync each of them: on a disk they mostly wait.
# The folder has a fixed name because the go command remembers results per TMPDIR; its
# own files stay on the disk. A TMPDIR that is set already is left alone.
set -euo pipefail
memory=/dev/shm
if [ -z "${TMPDIR:-}" ] && [ -w "$memory" ] && [ "$(stat -f -c %T "$memory" 2>/dev/null)" = tmpfs ] &&
	[ "$(df -Pk "$memory" | awk 'NR == 2 {print $4}')" -ge $((2 << 20)) ]; then
	work=$memory/podwright-$(id -u)
	mkdir -p -m 0711 "$work" # as in /tmp, tests as another user pass through
	# Another user's folder of this name, or a link, is not ours to use.
	if [ -O "$work" ] && [ ! -L "$work" ]; then
		trap 'rmdir "$work" 2>/dev/null || true' EXIT
		if [ -z "${GOTMPDIR:-}" ]; then
			# Tests would take GOTMPDIR for their own files, too: it is told to the go command
			# alone, in its file of settings.
			settings=$work/go.env.$$
			given=$(go env GOENV)
			[ ! -f "$given" ] || cat "$given" >"$settings"
			echo "GOTMPDIR=/tmp" >>"$settings"
			export GOENV=$settings
			trap 'rm -f "$settings"; rmdir "$work" 2>/dev/null || true' EXIT
		fi
		export TMPDIR=$work
	fi
fi
"$@"
