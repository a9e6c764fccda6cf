/* The loops of the float32 product on AMX; see gemm_amx.h. What knows about tiles is in gemm_amx_tiles.c.
 *
 * The operand with fewer rows or columns is packed, block by block, into memory that all threads read (the
 * shared one). The other is cut into strips, which the threads divide: a strip runs against all panels of the
 * shared one, and meanwhile the same thread packs its next strip. Cores may differ in speed by a factor of
 * two (a busy twin thread), so who has nothing left takes half of what another still has. */
#include "kernels/gemm_amx.h"

#include "kernels/gemm_amx_tiles.h"

#ifdef PD_WITH_AMX
#include <cpuid.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/parallel.h"

/* In blocks of a panel, 6 KiB each. The second cache, 2 MiB in all processors with AMX, is to hold the shared
 * operand and two strips. */
enum {
    SHARED_BLOCKS = 208,
    STRIP_BLOCKS = 16, /* most k that is added up in one go; more would cost digits, less time */
    KEPT = 4,          /* workspaces kept for the next call */
    SHARES = 64,       /* most threads of a product */
};

/* The squares of C that a thread has still to do: the next in the lower half, the end in the upper. */
struct share {
    _Alignas(64) _Atomic uint64_t left;
};

struct product {
    struct pd_amx_operand a, b;
    const struct pd_amx_operand *strips, *shared; /* one is a, the other b */
    float beta, *c;
    int64_t ldc;
    int64_t strip_count, parts;
    int64_t piece;                              /* blocks of k of a strip that are packed and run together */
    int64_t panel, panel_end, block, block_end; /* of the shared operand: what is packed */
    char *shared_packed, *strips_packed;        /* two strips for each part */
    struct share *shares;                       /* one for each part */
    int seen;                                   /* the largest are known */
    atomic_uint largest_a, largest_b;
};

/* ---- what the machine has ---- */

static int has_amx;

static void ask_machine(void)
{
    const int request_permission = 0x1023, tile_data = 18; /* older headers have no names for them */
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    if (!(d & (1u << 22)) || !(d & (1u << 24))) return; /* AMX-BF16, AMX-TILE */
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
        return;
    has_amx = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
    /* oneDNN may come later, on the same worker threads. */
    if (has_amx) pd_threads_start();
}

int pd_amx_ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_machine);
    return has_amx;
}

/* ---- workspaces: fresh pages cost more than a small product, so a few stay ---- */

struct workspace {
    int64_t size; /* of what follows */
    _Alignas(64) char packed[];
};

static _Atomic(struct workspace *) kept[KEPT];

static struct workspace *take_workspace(int64_t size)
{
    for (int i = 0; i < KEPT; i++) {
        struct workspace *found = atomic_exchange(&kept[i], NULL);
        if (found && found->size >= size) return found;
        pd_free_aligned(found);
    }
    struct workspace *fresh = pd_malloc_aligned(sizeof *fresh + (size_t)size);
    if (fresh) fresh->size = size;
    return fresh;
}

static void give_workspace(struct workspace *workspace)
{
    for (int i = 0; i < KEPT && workspace; i++)
        workspace = atomic_exchange(&kept[i], workspace);
    pd_free_aligned(workspace);
}

/* ---- the two passes, each run by all threads ---- */

static int64_t panels_of(const struct pd_amx_operand *of)
{
    return (of->width + PD_AMX_PANEL - 1) / PD_AMX_PANEL;
}

static void keep_largest(atomic_uint *largest, uint32_t found)
{
    unsigned before = atomic_load(largest);
    while (found > before && !atomic_compare_exchange_weak(largest, &before, found))
        ;
}

/* First pass: looks through both operands once, and packs a block of the shared one. */
static void prepare(void *arg, int64_t begin, int64_t end)
{
    struct product *p = arg;
    int64_t panels = p->panel_end - p->panel, bytes = (p->block_end - p->block) * PD_AMX_BLOCK_BYTES;
    for (int64_t part = begin; part < end && !p->seen; part++) {
        keep_largest(&p->largest_a, pd_amx_largest(&p->a, part, p->parts));
        keep_largest(&p->largest_b, pd_amx_largest(&p->b, part, p->parts));
    }
    for (int64_t i = panels * begin / p->parts; i < panels * end / p->parts; i++) {
        struct pd_amx_packing packing;
        pd_amx_pack_start(&packing, p->shared, p->panel + i, p->block, p->block_end,
                          p->shared_packed + i * bytes);
        pd_amx_pack_finish(&packing);
    }
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* A piece of a strip: blocks [block, block_end) of k, against panels [panel, panel_end) of what is packed of
 * the shared operand. */
struct piece {
    int64_t strip, block, block_end, panel, panel_end;
};

/* Runs a packed piece while `next` is packed. */
static void run_piece(const struct product *p, const struct piece *piece, const char *packed,
                      struct pd_amx_packing *next)
{
    const int by_rows = p->strips == &p->a;
    const int64_t k_left = p->a.k - piece->block * PD_AMX_DEPTH, panels = piece->panel_end - piece->panel;
    const int64_t k = at_most(k_left, (piece->block_end - piece->block) * PD_AMX_DEPTH);
    const int64_t blocks = p->block_end - p->block;
    const int rows = (int)((PD_AMX_PANEL + panels - 1) / panels);
    for (int64_t i = piece->panel; i < piece->panel_end; i++) {
        const char *other = p->shared_packed + (i * blocks + piece->block - p->block) * PD_AMX_BLOCK_BYTES;
        int64_t row = (by_rows ? piece->strip : p->panel + i) * PD_AMX_PANEL;
        int64_t column = (by_rows ? p->panel + i : piece->strip) * PD_AMX_PANEL;
        struct pd_amx_square c = {p->c + row * p->ldc + column, p->ldc,
                                  at_most(p->a.width - row, PD_AMX_PANEL),
                                  at_most(p->b.width - column, PD_AMX_PANEL), piece->block > 0 ? 1 : p->beta};
        pd_amx_multiply(by_rows ? packed : other, by_rows ? other : packed, k, &c, next, rows);
    }
}

static uint64_t range_of(int64_t next, int64_t end)
{
    return (uint64_t)end << 32 | (uint64_t)next;
}

static int64_t next_of(uint64_t range)
{
    return (int64_t)(range & UINT32_MAX);
}

static int64_t end_of(uint64_t range)
{
    return (int64_t)(range >> 32);
}

/* Takes squares of one strip from the thread's own share, fewer towards its end: what is taken cannot be
 * given to others. */
static int take_own(struct share *own, int64_t panels, int64_t *first, int64_t *last)
{
    uint64_t left = atomic_load_explicit(&own->left, memory_order_relaxed);
    for (;;) {
        int64_t next = next_of(left), count = end_of(left) - next;
        if (count <= 0) return 0;
        int64_t in_strip = panels - next % panels, some = count / 3 > 3 ? count / 3 : 3;
        *first = next;
        *last = next + at_most(at_most(in_strip, some), count);
        if (atomic_compare_exchange_weak_explicit(&own->left, &left, range_of(*last, end_of(left)),
                                                  memory_order_relaxed, memory_order_relaxed))
            return 1;
    }
}

/* Makes the back half of the largest share the thread's own. */
static int take_over(const struct product *p, struct share *own)
{
    for (;;) {
        struct share *largest = NULL;
        uint64_t left = 0;
        int64_t most = 0;
        for (int64_t i = 0; i < p->parts; i++) {
            uint64_t range = atomic_load_explicit(&p->shares[i].left, memory_order_relaxed);
            if (end_of(range) - next_of(range) <= most) continue;
            most = end_of(range) - next_of(range);
            left = range;
            largest = &p->shares[i];
        }
        if (!largest) return 0;
        int64_t middle = end_of(left) - (most + 1) / 2;
        if (!atomic_compare_exchange_strong_explicit(&largest->left, &left, range_of(next_of(left), middle),
                                                     memory_order_relaxed, memory_order_relaxed))
            continue;
        atomic_store_explicit(&own->left, range_of(middle, end_of(left)), memory_order_relaxed);
        return 1;
    }
}

/* Second pass. The squares of C are dealt out evenly, so that a thread may begin or end within a strip. */
static void run_strips(void *arg, int64_t begin, int64_t end)
{
    const struct product *p = arg;
    const int64_t panels = p->panel_end - p->panel;
    struct share *own = &p->shares[begin];
    char *packed = p->strips_packed + begin * 2 * STRIP_BLOCKS * PD_AMX_BLOCK_BYTES;
    char *other = packed + STRIP_BLOCKS * PD_AMX_BLOCK_BYTES;
    struct pd_amx_packing packing = {.from = NULL};
    struct piece before = {.strip = -1};
    pd_amx_tiles_on();
    /* Each piece begins to be packed, then the one before it runs. */
    for (int64_t first, last; take_own(own, panels, &first, &last) ||
                              (take_over(p, own) && take_own(own, panels, &first, &last));) {
        int64_t strip = first / panels;
        for (int64_t block = p->block; block < p->block_end; block += p->piece) {
            struct piece piece = {strip, block, at_most(block + p->piece, p->block_end), first % panels,
                                  last - strip * panels};
            pd_amx_pack_start(&packing, p->strips, strip, block, piece.block_end, packed);
            if (before.strip >= 0) run_piece(p, &before, other, &packing);
            pd_amx_pack_finish(&packing);
            before = piece;
            char *done = other;
            other = packed;
            packed = done;
        }
    }
    if (before.strip >= 0) run_piece(p, &before, other, &packing);
    pd_amx_tiles_off();
}

/* ---- the product ---- */

/* Whether all sums of parts stay among the normal floats, or so little below them that it does not show
 * beside the largest numbers. Zeros are fine. */
static int in_range(float largest_a, float largest_b, int64_t k)
{
    const double least = 0x1p-90, most = 0x1p126, product = (double)largest_a * largest_b;
    if (!(largest_a < most && largest_b < most && product * (double)k < most)) return 0;
    return largest_a == 0 || largest_b == 0 || (largest_a > least && largest_b > least && product > least);
}

static float float_of(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static int64_t cut_evenly(int64_t count, int64_t most)
{
    int64_t pieces = (count + most - 1) / most;
    return (count + pieces - 1) / pieces;
}

static int run_product(struct product *p)
{
    int64_t panels = panels_of(p->shared), blocks = (p->a.k + PD_AMX_DEPTH - 1) / PD_AMX_DEPTH;
    p->piece = cut_evenly(blocks, STRIP_BLOCKS);
    int64_t pieces = SHARED_BLOCKS / (panels * p->piece), deep = p->piece * (pieces > 0 ? pieces : 1);
    int64_t wide = cut_evenly(panels, SHARED_BLOCKS / at_most(deep, blocks));
    for (p->block = 0; p->block < blocks; p->block = p->block_end) {
        p->block_end = at_most(p->block + deep, blocks);
        for (p->panel = 0; p->panel < panels; p->panel = p->panel_end) {
            p->panel_end = at_most(p->panel + wide, panels);
            pd_parallel(p->parts, 1, prepare, p);
            if (!p->seen &&
                !in_range(float_of(p->largest_a), float_of(p->largest_b) * fabsf(p->b.scale), p->a.k))
                return 0;
            p->seen = 1;
            int64_t squares = p->strip_count * (p->panel_end - p->panel);
            for (int64_t i = 0; i < p->parts; i++)
                p->shares[i].left = range_of(squares * i / p->parts, squares * (i + 1) / p->parts);
            pd_parallel(p->parts, 1, run_strips, p);
        }
    }
    return 1;
}

int pd_amx_gemm(const struct pd_gemm *g)
{
    const int64_t m = g->m, n = g->n, k = g->k;
    if (k <= 0 || !pd_flag_int(PD_FLAG_use_amx) || !pd_amx_ready()) return 0;
    if (m <= 0 || n <= 0) return 1;
    struct product p = {.a = {g->a.at, g->a.ld, m, k, !g->a.trans, 1, 1},
                        .b = {g->b.at, g->b.ld, n, k, g->b.trans != 0, 0, (float)g->alpha},
                        .beta = (float)g->beta,
                        .c = g->c,
                        .ldc = g->ldc};
    p.strips = m >= n ? &p.a : &p.b;
    p.shared = m >= n ? &p.b : &p.a;
    p.strip_count = panels_of(p.strips);
    p.parts = at_most(at_most(pd_threads(), p.strip_count), SHARES);
    if (p.strip_count > INT32_MAX / panels_of(p.shared)) return 0;
    struct share shares[SHARES];
    p.shares = shares;
    /* One block more, because a product loads tiles ahead of their use, past the end too. */
    int64_t size = SHARED_BLOCKS + p.parts * 2 * STRIP_BLOCKS + 1;
    struct workspace *workspace = take_workspace(size * PD_AMX_BLOCK_BYTES);
    if (!workspace) return 0;
    p.shared_packed = workspace->packed;
    p.strips_packed = workspace->packed + SHARED_BLOCKS * PD_AMX_BLOCK_BYTES;
    int done = run_product(&p);
    give_workspace(workspace);
    return done;
}

#else

int pd_amx_ready(void)
{
    return 0;
}

int pd_amx_gemm(const struct pd_gemm *g)
{
    return 0;
}
#endif
