// Package topology reads the shape of a machine, and says which CPUs and which
// memory a rank should keep to.
//
//	/sys, /proc/self/status -> Read -> Machine: CPUs in cores, caches, nodes, sockets
//	Machine, a GPU's PCI address for each rank -> Bindings -> Binding -> Apply
//
// A node is a NUMA node here. Only CPUs that the process may run on are in a
// Machine, so that a binding never reaches beyond the cpuset of a container.
// Reading and choosing are arithmetic over files that the caller gives; only Apply
// changes anything, and it changes the calling thread.
package topology
