package status

// delayQueue is a heap of delayed deliveries by due time.
type delayQueue []*delivery

func (q delayQueue) Len() int           { return len(q) }
func (q delayQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q delayQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push implements heap.Interface.
func (q *delayQueue) Push(x any) {
	d := x.(*delivery)
	d.at = len(*q)
	*q = append(*q, d)
}

// Pop implements heap.Interface.
func (q *delayQueue) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return d
}
