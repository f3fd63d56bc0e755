// Package nd holds the words that every other package shares: element types,
// spans and boxes, and the kinds of errors.
//
// A box is a half-open range per axis, in the axis order of the array. Element
// types are the numeric types of zarr that a batch can carry. Errors are told
// apart by kind (errors.Is with a sentinel of this package) and carry the place
// of the failure: array, chunk, file and byte range.
package nd
