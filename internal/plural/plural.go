// Package plural writes numbers of things in words.
package plural

import "fmt"

// Of is a number of things: 1 rank, 2 ranks. What must be a word whose plural ends in s.
func Of[N int | int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
