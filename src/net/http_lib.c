/* See http_lib.h. */
#include "net/http_lib.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/error.h"

#define LIBRARY "libmicrohttpd.so.12"

static struct pd_http_lib lib;
static int ready;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ready = library != NULL;
#define BIND(name)                                                                                           \
    if (library) *(void **)&lib.name = dlsym(library, "MHD_" #name);                                         \
    ready &= lib.name != NULL;
    PD_HTTP_FUNCTIONS(BIND)
#undef BIND
}

pd_status pd_http_lib(const struct pd_http_lib **out)
{
    pthread_once(&once, open_library);
    if (!ready)
        return pd_fail(PD_UNSUPPORTED, "answering HTTP needs libmicrohttpd (" LIBRARY
                                       "), which is not there. On Debian: apt-get install libmicrohttpd12");
    *out = &lib;
    return PD_OK;
}
