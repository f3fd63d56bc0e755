// Package cudatest is a GPU for tests on machines that have none: a fake of the
// driver's library, libcuda, built from the C++ sources in fake/ with the host
// build of cuda/kernels, and switches that make it fail. It is used by tests
// alone; nothing of it is part of headrace.
//
//	fake := cudatest.New(t)
//	driver, err := cuda.Load(fake.Path)
//	fake.Fail("cuMemAlloc", 2, 999) // the second allocation from now on fails
//
// Each New is a driver of its own: its devices, faults and counters are not those
// of another test. fake/fake.h says how it differs from the real one.
package cudatest
