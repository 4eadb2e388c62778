package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketMode lets the agent's user and root connect.
const socketMode = 0o600

// socket is a listener that owns its file as long as it holds the lock next to it.
type socket struct {
	*net.UnixListener
	lock *os.File
}

// errSocketInUse says that another agent serves this socket.
var errSocketInUse = errors.New("is in use by another nodeagent; end that one or choose another path")

// listenSocket creates a socket to which, from its creation on, only the agent's user and root can
// connect. The socket of an agent that was killed is replaced; one that answers is not.
func listenSocket(ctx context.Context, path string) (_ net.Listener, err error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, socketMode)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errSocketInUse
	} else if err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: closedToOthers}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Perm() != socketMode {
		err = fmt.Errorf("the kernel made it with mode %04o", info.Mode().Perm())
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return socket{UnixListener: l.(*net.UnixListener), lock: lock}, nil
}

// closedToOthers sets a socket's mode before it has a file: Linux creates the file with the mode of
// the socket, whatever the umask is.
func closedToOthers(_, _ string, c syscall.RawConn) (err error) {
	controlErr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), socketMode) })
	return errors.Join(controlErr, err)
}

// removeStale removes a socket that no process serves.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("the file exists and is no socket; remove it or choose another path")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(errors.New("another program serves this socket; choose another path"), conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("there is a socket that cannot be tried: %w", err)
}

// Close removes the socket, then releases the lock.
func (s socket) Close() error {
	return errors.Join(s.UnixListener.Close(), s.lock.Close())
}

// peer is the user of the program at the other end of a connection.
type peer struct {
	uid int
	err error
}

// peerOf asks the kernel who connected.
func peerOf(conn *net.UnixConn) peer {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{err: err}
	}
	var cred *unix.Ucred
	controlErr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(controlErr, err); err != nil {
		return peer{err: err}
	}
	return peer{uid: int(cred.Uid)}
}

// may reports whether the peer may use the API of an agent that runs as user.
func (p peer) may(user int) bool { return p.err == nil && (p.uid == 0 || p.uid == user) }
