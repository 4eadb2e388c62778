package checkpoint

import "strconv"

// FileOfVersion is a record file of some format version, with a right checksum.
func FileOfVersion(version int, body []byte) []byte {
	title := magic + " " + strconv.Itoa(version)
	return append([]byte(title+" "+checksum(title, body)+"\n"), body...)
}
