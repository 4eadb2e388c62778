package timing

import "time"

// longest is the longest duration that [Seconds] returns. The sum of a few of them is still a valid duration.
const longest = 50 * 365 * 24 * time.Hour

// Seconds turns the number of seconds that a pod asks for into a duration. If the pod asks for more
// seconds than a duration can hold, a plain multiplication would overflow to nothing or to the
// past: the pod gets 50 years, likewise for negative numbers.
func Seconds(n int64) time.Duration {
	const most = int64(longest / time.Second)
	return time.Duration(min(max(n, -most), most)) * time.Second
}
