// Package rule has the rules of docs/spec by which cleanup keeps something that could otherwise be
// removed, and the form in which a plan says so. Decisions compare a [Rule]; the text of a [Denial]
// is only for display.
package rule
