// The kernels, as one file for every compiler. See doc.go.
#include "assemble.h"
#include "decode.h"
#include "gather.h"
