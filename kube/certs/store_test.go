package certs

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// TestKilledBetweenTheWrites (KC1): whichever step of storing an answer was the last, two generations of the agent
// later the node has that certificate, and made one request for it.
func TestKilledBetweenTheWrites(t *testing.T) {
	for name, undo := range map[string]func(r *rig, dir string, key []byte) error{
		"the key only": func(_ *rig, dir string, key []byte) error {
			files, _ := filepath.Glob(filepath.Join(dir, "*.pem"))
			for _, f := range files {
				if err := os.Remove(f); err != nil {
					return err
				}
			}
			return os.WriteFile(filepath.Join(dir, "kubelet-client-pending.key"), key, 0o600)
		},
		"a part of the pair": func(_ *rig, dir string, key []byte) error {
			files, _ := filepath.Glob(filepath.Join(dir, "kubelet-client-2*.pem"))
			return errors.Join(os.Truncate(files[0], 100), os.Rename(files[0], files[0]+".tmp"), os.Remove(filepath.Join(dir, "kubelet-client-current.pem")),
				os.WriteFile(filepath.Join(dir, "kubelet-client-pending.key"), key, 0o600))
		},
		"the pair, no link": func(_ *rig, dir string, key []byte) error {
			return errors.Join(os.Remove(filepath.Join(dir, "kubelet-client-current.pem")), os.WriteFile(filepath.Join(dir, "kubelet-client-pending.key"), key, 0o600))
		},
		"half a link": func(_ *rig, dir string, key []byte) error {
			return errors.Join(os.Rename(filepath.Join(dir, "kubelet-client-current.pem"), filepath.Join(dir, "kubelet-client-current.pem.tmp")),
				os.WriteFile(filepath.Join(dir, "kubelet-client-pending.key"), key, 0o600))
		},
		"all but the key's end": func(_ *rig, dir string, key []byte) error {
			return os.WriteFile(filepath.Join(dir, "kubelet-client-pending.key"), key, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(r *rig) {
				r.answer = nil
				r.start()
				r.after(100 * time.Millisecond)
				key, err := os.ReadFile(filepath.Join(r.dir, "kubelet-client-pending.key"))
				if err != nil {
					t.Fatal(err)
				}
				r.set(func() { r.answer = r.grant(0, time.Hour) })
				r.after(2 * time.Second)
				issued := r.leaf()
				if issued == nil {
					t.Fatal(r.logged)
				}
				for range 2 {
					r.stop()
					if err := undo(r, r.dir, key); err != nil {
						t.Fatal(err)
					}
					r.start()
					r.after(5 * time.Second)
					if got := r.leaf(); got == nil || !got.Equal(issued) {
						t.Errorf("certificate %v", got)
					}
				}
				if requests, _ := r.count(); requests != 1 {
					t.Errorf("%d requests", requests)
				}
				content, err := os.ReadFile(filepath.Join(r.dir, "kubelet-client-current.pem"))
				if err != nil {
					t.Fatal(err)
				}
				if pair, err := parsePair(content); err != nil || !pair.Leaf.Equal(issued) {
					t.Errorf("the link: %v", err)
				}
				if left, _ := filepath.Glob(filepath.Join(r.dir, "*")); len(left) != 2 {
					t.Errorf("files %q", left)
				}
			})
		})
	}
}

// TestKilledBetweenRequestAndAnswer (KC1): the next agent finds the request, denied or granted, by its key.
func TestKilledBetweenRequestAndAnswer(t *testing.T) {
	in(t, func(r *rig) {
		r.answer = nil
		r.start()
		r.after(time.Second)
		r.restart()
		r.set(func() { r.answer = r.grant(0, time.Hour) })
		r.after(5 * time.Second)
		if requests, _ := r.count(); requests != 1 || r.leaf() == nil {
			t.Errorf("%d requests, certificate %v", requests, r.leaf())
		}
		r.stop()
		r.set(func() { r.answer = say(certificatesv1.CertificateDenied) })
		r.after(24 * time.Hour)
		r.start()
		r.after(time.Second)
		r.restart()
		r.set(func() { r.answer = r.grant(0, time.Hour) })
		r.after(time.Minute)
		if r.leaf() == nil {
			t.Error("a denied request holds up the next agent")
		}
	})
}

// TestBrokenFiles (KC1): what is not a pair is left alone and left out; a link of a kubelet's, absolute, is followed.
func TestBrokenFiles(t *testing.T) {
	in(t, func(r *rig) {
		now := time.Now()
		good := r.authority.pair(t, "edge-1", now.Add(-time.Hour), now.Add(10*time.Hour))
		older := r.authority.pair(t, "edge-1", now.Add(-2*time.Hour), now.Add(10*time.Hour))
		write := func(name string, content []byte) {
			if err := errors.Join(os.MkdirAll(r.dir, 0o700), os.WriteFile(filepath.Join(r.dir, name), content, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		write("kubelet-client-2025-01-01-00-00-00.pem", good)
		write("kubelet-client-2025-01-02-00-00-00.pem", nil)
		write("kubelet-client-2025-01-03-00-00-00.pem", good[:200])
		write("kubelet-client-2025-01-04-00-00-00.pem", []byte("hello"))
		write("kubelet-client-2025-01-05-00-00-00.pem", older)
		write("kubelet-client-pending.key", []byte("hello"))
		write("kubelet-server-2025-01-06-00-00-00.pem", older)
		if err := errors.Join(os.Mkdir(filepath.Join(r.dir, "kubelet-client-2025.pem"), 0o700),
			os.Symlink(filepath.Join(r.dir, "kubelet-client-2025-01-04-00-00-00.pem"), filepath.Join(r.dir, "kubelet-client-current.pem"))); err != nil {
			t.Fatal(err)
		}
		r.start()
		want, _ := parsePair(good)
		if got := r.leaf(); got == nil || !got.Equal(want.Leaf) {
			t.Errorf("certificate %v", got)
		}
		if len(r.logged) != 4 {
			t.Errorf("log %q", r.logged)
		}
		if at, err := os.Readlink(filepath.Join(r.dir, "kubelet-client-current.pem")); err != nil || at != "kubelet-client-2025-01-01-00-00-00.pem" {
			t.Errorf("the link leads to %q: %v", at, err)
		}
		r.after(11 * time.Hour) // renewed
		if got := r.leaf(); got == nil || got.Equal(want.Leaf) {
			t.Errorf("certificate %v", got)
		}
		left, _ := filepath.Glob(filepath.Join(r.dir, "*"))
		if len(left) < 6 {
			t.Errorf("files %q", left)
		}
	})
}

// TestForeignLink (KC1): a link to a pair of another name, as an installer sets it, is followed.
func TestForeignLink(t *testing.T) {
	in(t, func(r *rig) {
		now := time.Now()
		content := r.authority.pair(t, "edge-1", now, now.Add(10*time.Hour))
		if err := errors.Join(os.MkdirAll(r.dir, 0o700), os.WriteFile(filepath.Join(r.dir, "installed.crt"), content, 0o600),
			os.Symlink("installed.crt", filepath.Join(r.dir, "kubelet-client-current.pem"))); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.after(time.Hour)
		want, _ := parsePair(content)
		if requests, _ := r.count(); requests != 0 || !(&x509.Certificate{Raw: want.Leaf.Raw}).Equal(r.leaf()) {
			t.Errorf("%d requests", requests)
		}
	})
}

// TestRenamedNode (KC1): a certificate of the name before is not used, and not asked with: no approver would take it.
func TestRenamedNode(t *testing.T) {
	in(t, func(r *rig) {
		r.start()
		r.after(3 * time.Second)
		r.stop()
		r.want, r.as = ClientRequest("edge-2"), nil
		r.start()
		if _, err := r.keeper.Certificate(); !errors.Is(err, ErrNone) {
			t.Errorf("at the start: %v", err)
		}
		r.after(3 * time.Second)
		if leaf := r.leaf(); leaf == nil || leaf.Subject.CommonName != "system:node:edge-2" || r.as[0] {
			t.Errorf("certificate %v, asked with one: %v", leaf, r.as)
		}
	})
}
