package timing

import "time"

// longest is the longest duration of [Seconds]. Sums of a few of them are durations too.
const longest = 50 * 365 * 24 * time.Hour

// Seconds is a number of seconds that a pod asks for, as a duration. A pod may ask for more
// seconds than a duration holds, and multiplying would make that nothing, or a time that is
// over: it gets 50 years, negative numbers likewise.
func Seconds(n int64) time.Duration {
	const most = int64(longest / time.Second)
	return time.Duration(min(max(n, -most), most)) * time.Second
}
