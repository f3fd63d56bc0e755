// A libFuzzer target for the decoder: clang++ -std=c++17 -fsanitize=fuzzer,address
// -ffp-contract=off testdata/fuzz.cc. The first bytes of an input are the method,
// the element size and the decoded length.
#include "../host.cc"

#include <vector>

using namespace hr;

extern "C" int LLVMFuzzerTestOneInput(const u8 *data, size_t size) {
	if (size < 4) return 0;
	u32 decoded = data[2] | data[3] << 8;
	std::vector<u8> src(data + 4, data + size);
	u8 *dst = (u8 *)aligned_alloc(16, decoded), *scratch = (u8 *)aligned_alloc(16, decoded);
	u32 status = 99;
	Chunk c = {(u64)src.data(), (u64)dst, (u64)scratch, (u32)src.size(), decoded, 0, (u8)(1 + data[0] % 4), data[1], 0};
	DecodeParams p = {(u64)&c, (u64)&status, 1};
	hr_host_launch("hr_decode", &p, 1, DECODE_BLOCK);
	if (status > UNSUPPORTED) __builtin_trap();
	free(dst);
	free(scratch);
	return 0;
}
