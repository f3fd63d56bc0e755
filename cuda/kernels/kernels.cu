// The kernels, as one file for every compiler. See doc.go.
#include "assemble.h"
#include "crc32c.h"
#include "decode.h"
#include "gather.h"
#include "inflate.h"
#include "zstd_execute.h"
#include "zstd_finish.h"
#include "zstd_order.h"
