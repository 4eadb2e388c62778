// Package seal encrypts and authenticates small files with AES-256-GCM, so that they cannot be
// read, changed, or put in each other's place without the key.
//
//	secret, 32 bytes ──HKDF──► key ID, in the file
//	        │
//	        └──HKDF + name of the file──► key of that file ──► nonce, ciphertext, tag
//
// Several keys make a rotation possible: the first one seals, all of them open. What is sealed
// with a key that was not given is told apart from what was changed.
//
// It does not notice an older version of a file that was put back: that takes a counter outside
// the folder.
package seal
