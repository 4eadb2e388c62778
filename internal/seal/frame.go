package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
)

// ErrHeader is the error of [Unframe] for a file without the header.
var ErrHeader = errors.New("no header")

// ErrChecksum is the error of [Unframe] for a file that was changed or cut short.
var ErrChecksum = errors.New("wrong checksum")

// Frame returns the file of a body:
//
//	<magic> <version> <sha256 of the words before it and of the body>
//	<body>
//
// The magic word says which program wrote the file. All its versions have this header, so that a
// damaged file and one of a newer version can always be told apart.
func Frame(magic string, version int, body []byte) []byte {
	title := magic + " " + strconv.Itoa(version)
	return append([]byte(title+" "+checksum(title, body)+"\n"), body...)
}

// checksum covers the version too, so that a damaged digit does not pass for a newer version.
func checksum(title string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(title))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// Unframe returns the version and the body of a file. The version is 0 if it is no number that
// [Frame] writes. The error is ErrHeader or ErrChecksum.
func Unframe(magic string, data []byte) (version int, body []byte, err error) {
	header, body, ok := bytes.Cut(data, []byte("\n"))
	words := bytes.Split(header, []byte(" "))
	if !ok || len(words) != 3 || string(words[0]) != magic {
		return 0, nil, ErrHeader
	}
	word := string(words[1])
	if checksum(magic+" "+word, body) != string(words[2]) {
		return 0, nil, ErrChecksum
	}
	version, err = strconv.Atoi(word)
	if err != nil || version < 1 || strconv.Itoa(version) != word {
		version = 0
	}
	return version, body, nil
}
