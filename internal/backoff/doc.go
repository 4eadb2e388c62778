// Package backoff computes the delays between attempts that keep failing. It has no state and no
// clock: the caller counts failures or keeps the last delay, and adds the jitter that its rule asks
// for.
package backoff
