// Package storetest holds stores that misbehave on purpose or keep count, and
// the rules that every store keeps (Conform). It is for tests.
//
//	Fault( Latency( Counting( Memory | File ) ) )
package storetest
