#include "headrace_client.h"

#include <dlfcn.h>
#include <fenv.h>
#include <stddef.h>

int32_t hr_client_load(const char *path)
{
	fenv_t own;
	fegetenv(&own);
	fesetenv(FE_DFL_ENV);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	fesetenv(&own);
	return library == NULL ? -1 : 0;
}
