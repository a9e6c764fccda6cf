/* randperm: the numbers below n in random order. With a seed, upstream's order: srand and rand of the C
 * library and std::random_shuffle. */
#include "ops/check.h"
#include "ops/draw.h"

enum { OUT };
enum { N, DTYPE, SEED };

/* rand() of glibc: each word is the sum of those 3 and 31 before, made from the seed by another generator;
 * the first 310 are thrown away. */
enum { BACK = 31, NEAR = 3, SKIPPED = 310 };

struct source {
    int seeded;
    uint32_t at[BACK];
    int next;
    struct pd_rng rng;
    uint64_t drawn;
};

static uint32_t seeded_word(struct source *s)
{
    uint32_t word = s->at[s->next] += s->at[(s->next + BACK - NEAR) % BACK];
    s->next = (s->next + 1) % BACK;
    return word >> 1;
}

static void start(struct source *s, uint32_t seed)
{
    int32_t word = (int32_t)seed;
    for (int i = 0; i < BACK; i++) {
        s->at[i] = (uint32_t)word;
        word = (int32_t)(16807 * ((int64_t)word % 127773) - 2836 * ((int64_t)word / 127773));
        if (word < 0) word += 2147483647;
    }
    s->seeded = 1;
    s->next = NEAR;
    for (int i = 0; i < SKIPPED; i++)
        seeded_word(s);
}

/* In [0, count). */
static int64_t one_of(struct source *s, int64_t count)
{
    if (s->seeded) return seeded_word(s) % count;
    return (int64_t)(pd_rng_uniform(&s->rng, s->drawn++) * (double)count);
}

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (c->attr[N].i < 1)
        return pd_fail(PD_INVALID, "attribute n is %d; it must be at least 1", c->attr[N].i);
    PD_TRY(pd_check_dtype(c->attr[DTYPE].i, "dtype", &out->dtype));
    if (!pd_dtype_is_index(out->dtype))
        return pd_fail(PD_TYPE, "attribute dtype asks for %s; use int32 or int64", pd_dtype_name(out->dtype));
    pd_meta_set_1d(out, c->attr[N].i);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t n = r->attr[N].i;
    struct source source = {0};
    if (r->attr[SEED].i)
        start(&source, (uint32_t)r->attr[SEED].i);
    else
        source.rng = pd_draw_rng(r);
    PD_SWITCH_INDEX(out->meta.dtype, T, {
        T *at = out->data;
        for (int64_t i = 0; i < n; i++)
            at[i] = (T)i;
        for (int64_t i = 1; i < n; i++) {
            int64_t k = one_of(&source, i + 1);
            T kept = at[i];
            at[i] = at[k];
            at[k] = kept;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_randperm = {
    .type = "randperm",
    .doc = "The numbers from 0 to n - 1 in random order.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out"}, {0}},
    .attrs =
        (const struct pd_attr_def[]){
            PD_DEF_INT("n", 0), PD_DEF_INT("dtype", PD_DTYPE_INT64), PD_DEF_INT("seed", 0), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
    .state_size = sizeof(struct pd_draw_count),
};
