/* Finds and opens oneDNN, and its matrix product; see dnnl.h. Convolutions are in dnnl_conv.c. Built without
 * oneDNN's headers, every call says no. */
#include "kernels/dnnl.h"

#ifdef PD_WITH_ONEDNN
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/parallel.h"
#include "kernels/dnnl_lib.h"

#define LIBRARY "libdnnl.so.3"

static struct pd_dnnl_lib lib;
static int ready;
static char version_text[64];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- memory ---- */

static int give_back_segments(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)size;
    if (!info->dlpi_name || strcmp(info->dlpi_name, name) != 0) return 0;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || (segment->p_flags & PF_W)) continue;
        uintptr_t start = (info->dlpi_addr + segment->p_vaddr + page - 1) & ~(page - 1);
        uintptr_t end = (info->dlpi_addr + segment->p_vaddr + segment->p_memsz) & ~(page - 1);
        if (start < end) madvise((void *)start, end - start, MADV_DONTNEED);
    }
    return 1;
}

/* Its constructors and the makers of its kernels run once, and leave 14 MB of its code in this process. A
 * product needs one of them: it comes back from the page cache when it is called. */
static void give_back_code(void)
{
    Dl_info info;
    if (dladdr((void *)lib.sgemm, &info) && info.dli_fname)
        dl_iterate_phdr(give_back_segments, (void *)info.dli_fname);
}

/* ---- the library ---- */

static int bind(void *library)
{
    const char *missing = NULL;
#define BIND(name)                                                                                           \
    *(void **)&lib.name = dlsym(library, "dnnl_" #name);                                                     \
    if (!lib.name) missing = #name;
    PD_DNNL_FUNCTIONS(BIND)
#undef BIND
    if (missing) return 0;
    const dnnl_version_t *version = lib.version();
    if (version->major != DNNL_VERSION_MAJOR) return 0;
    if (lib.engine_create(&lib.engine, dnnl_cpu, 0) != dnnl_success) return 0;
    /* Its own cache of compiled kernels would otherwise grow to a thousand when batches have all-different
     * shapes. */
    lib.set_primitive_cache_capacity(128);
    snprintf(version_text, sizeof version_text, "oneDNN %d.%d.%d", version->major, version->minor,
             version->patch);
    pd_threads_start();
    return 1;
}

static int try_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
    if (bind(library)) return 1;
    dlclose(library);
    return 0;
}

/* Pip puts it into <environment>/lib, our library lies some levels below in the package (or in a build folder
 * beside the environment), so each folder above ours is asked. */
static int try_near_us(void)
{
    Dl_info info;
    if (!dladdr((void *)&lib, &info) || !info.dli_fname) return 0;
    char folder[4096], path[4096 + 32];
    char *real = realpath(info.dli_fname, NULL);
    snprintf(folder, sizeof folder, "%s", real ? real : info.dli_fname);
    free(real);
    static const char *const below[] = {"", "lib/", ".venv/lib/"};
    for (int level = 0; level < 8; level++) {
        char *slash = strrchr(folder, '/');
        if (!slash) return 0;
        *slash = 0;
        for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
            snprintf(path, sizeof path, "%s/%s" LIBRARY, folder, below[i]);
            if (try_open(path)) return 1;
        }
    }
    return 0;
}

static void open_library(void)
{
    const char *path = getenv("PADDLE_ONEDNN_LIBRARY");
    if (path && *path) {
        /* Who names a library wants that one or none: "none" switches oneDNN off. */
        ready = strcmp(path, "none") != 0 && try_open(path);
    } else {
        ready = try_near_us() || try_open(LIBRARY);
    }
    if (ready) give_back_code();
}

const struct pd_dnnl_lib *pd_dnnl_lib(void)
{
    pthread_once(&once, open_library);
    return ready ? &lib : NULL;
}

void pd_dnnl_use_threads(int threads)
{
#ifdef _OPENMP
    if (!omp_in_parallel() && omp_get_max_threads() != threads) omp_set_num_threads(threads);
#else
    (void)threads;
#endif
}

int pd_dnnl_gemm(const struct pd_gemm *g)
{
    if (!pd_dnnl_lib()) return 0;
    pd_dnnl_use_threads(1);
    int worked = lib.sgemm(g->a.trans ? 'T' : 'N', g->b.trans ? 'T' : 'N', g->m, g->n, g->k, (float)g->alpha,
                           g->a.at, g->a.ld, g->b.at, g->b.ld, (float)g->beta, g->c, g->ldc) == dnnl_success;
    static pthread_once_t first = PTHREAD_ONCE_INIT; /* has made the kernels of all products */
    pthread_once(&first, give_back_code);
    return worked;
}

const char *pd_dnnl_version(void)
{
    return pd_dnnl_lib() ? version_text : NULL;
}

#else

int pd_dnnl_gemm(const struct pd_gemm *g)
{
    return 0;
}

void *pd_dnnl_conv_prepare(void **cache, enum pd_conv_pass pass, const struct pd_conv *conv, size_t *scratch)
{
    return NULL;
}

int pd_dnnl_conv_run(void *prepared, const float *first, const float *second, float *out, void *scratch)
{
    return 0;
}

void pd_dnnl_cache_free(void *cache) {}

const char *pd_dnnl_version(void)
{
    return NULL;
}
#endif
