// Package scenario reads benchmark scenarios and draws their samples.
//
//	scenario.json -> Scenario -> Dataset (what gen writes)
//	                          -> Draws   (which crop is sample i)
//	                          -> Sampling, Pipeline, Consumer (how bench runs)
//
// The keys are those of damacy's benchmark, so that one file drives both
// programs over the same data with the same crops, plus ours; an unknown key is
// an error, since a misspelt one would measure something else. Keys that speak
// of a part which headrace does not have are accepted and named in Notes.
package scenario
