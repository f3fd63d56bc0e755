// Package rendezvous lets the nodes of a job find one another and agree, round
// by round, on who takes part, who is which, and when the job is over.
//
// It knows nodes, not workers: a node reports how its workers of a round ended,
// and is told what that means for the job.
package rendezvous
