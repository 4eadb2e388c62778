// Package seal encrypts and authenticates small files with AES-256-GCM, so that they cannot be
// read, changed, or put in each other's place without the key. It also has the header of such files,
// with which damage is noticed without a key ([Frame], [Unframe]).
//
//	secret, 32 bytes ──HKDF──► key ID, in the file
//	        │
//	        └──HKDF + name of the file──► key of that file ──► nonce, ciphertext, tag
//
// Several keys make rotation possible: the first one seals, all of them open. A file sealed with a
// key that was not given is told apart from one that was changed.
//
// The package does not notice if an older version of a file was put back: that would take a counter
// outside the folder.
package seal
