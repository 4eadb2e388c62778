// Package answers tells what an API server has said from what something in front of it has said: a load
// balancer, a proxy or a server that has just started answers with a page of text. It also tells which of two
// answers about an object is older.
package answers
