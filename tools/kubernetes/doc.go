// Package kubernetes has the tests of examples/kubernetes: its manifests are decoded by the
// API's own types, held against themselves, and run as processes of this machine. It is in
// this module because the types are needed for nothing else.
package kubernetes
