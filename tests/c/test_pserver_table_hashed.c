/* A table of rows by id, against a table that is a variable with all rows: whatever optimizer, the same bits.
 * Then which ids have a row, and what is kept of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <paddle/paddle.h>

#include "base/alloc.h"
#include "exec/executor.h"
#include "pserver/shard/table_hashed.h"
#include "tensor/file.h"

enum { HEIGHT = 40, WIDTH = 3 };

static void ok(pd_status status)
{
    if (status != PD_OK) fail_msg("%s", pd_error());
}

/* As the file says that it writes. */
static void save_rows(const struct pd_table *table, const struct pd_value *of, struct pd_value *out)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    ok(table->kind->save(table, of, file));
    rewind(file);
    pd_value_reset(out, PD_KIND_SELECTED_ROWS);
    ok(pd_value_read_file(out, file));
    fclose(file);
}

/* ---- a Program with the table ---- */

struct arg {
    const char *slot, *name;
    float start;
    int is_single; /* one number for all rows */
};

/* An optimizer, and its states; a state is written to the slot with "Out" behind its name. */
struct optimizer {
    const char *op;
    struct arg args[4];
    const char *flag;
};

static const struct optimizer optimizers[] = {
    {"sgd", {{NULL, NULL, 0, 0}}, NULL},
    {"momentum", {{"Velocity", "v", 0, 0}}, NULL},
    {"adagrad", {{"Moment", "m", 0.1f, 0}}, NULL},
    {"decayed_adagrad", {{"Moment", "m", 0, 0}}, NULL},
    {"adam",
     {{"Moment1", "m1", 0, 0},
      {"Moment2", "m2", 0, 0},
      {"Beta1Pow", "b1", 0.9f, 1},
      {"Beta2Pow", "b2", 0.999f, 1}},
     NULL},
    {"adam",
     {{"Moment1", "m1", 0, 0},
      {"Moment2", "m2", 0, 0},
      {"Beta1Pow", "b1", 0.9f, 1},
      {"Beta2Pow", "b2", 0.999f, 1}},
     "lazy_mode"},
    {"adadelta", {{"AvgSquaredGrad", "g", 0, 0}, {"AvgSquaredUpdate", "u", 0, 0}}, NULL},
    {"rmsprop", {{"MeanSquare", "s", 0, 0}, {"Moment", "m", 0, 0}, {"MeanGrad", "g", 0, 0}}, NULL},
};

struct site {
    pd_program *program;
    pd_scope *scope;
    pd_executor *executor;
    struct pd_engine engine;
    int update, start;
};

static void add(struct site *s, const char *name, int rank, const int64_t *dims, float value)
{
    int64_t id;
    int existed;
    pd_value *held;
    pd_tensor_desc tensor;
    ok(pd_var_create(s->program, 0, name, PD_LOD_TENSOR, &id, &existed));
    ok(pd_var_set_dtype(s->program, id, PD_FLOAT32));
    ok(pd_var_set_shape(s->program, id, rank, dims));
    ok(pd_var_set_flags(s->program, id, PD_VAR_IS_PERSISTABLE, PD_VAR_IS_PERSISTABLE));
    ok(pd_scope_var(s->scope, name, &held));
    ok(pd_value_set_tensor(held, PD_FLOAT32, rank, dims, NULL));
    ok(pd_value_tensor(held, &tensor));
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    for (int64_t i = 0; i < n; i++)
        ((float *)tensor.data)[i] = value;
}

static void add_op(struct site *s, int block, const char *type, const struct optimizer *o)
{
    int64_t id;
    pd_op_builder *op;
    ok(pd_op_begin(s->program, type, &op));
    if (!o) {
        ok(pd_op_add_arg(op, 1, "Out", "w"));
        struct pd_attr shape = {.type = PD_ATTR_LONGS, .n = 2, .longs = (int64_t[]){1, WIDTH}};
        ok(pd_op_add_attr(op, "shape", &shape));
        struct pd_attr seed = {.type = PD_ATTR_INT, .i = 5};
        ok(pd_op_add_attr(op, "seed", &seed));
    } else {
        ok(pd_op_add_arg(op, 0, "Param", "w"));
        ok(pd_op_add_arg(op, 1, "ParamOut", "w"));
        ok(pd_op_add_arg(op, 0, "Grad", "w@GRAD"));
        if (strcmp(type, "adadelta") != 0) ok(pd_op_add_arg(op, 0, "LearningRate", "rate"));
        for (int i = 0; i < 4 && o->args[i].slot; i++) {
            char out[32];
            snprintf(out, sizeof out, "%sOut", o->args[i].slot);
            ok(pd_op_add_arg(op, 0, o->args[i].slot, o->args[i].name));
            ok(pd_op_add_arg(op, 1, out, o->args[i].name));
        }
        struct pd_attr yes = {.type = PD_ATTR_BOOL, .b = 1};
        if (o->flag) ok(pd_op_add_attr(op, o->flag, &yes));
        struct pd_attr mu = {.type = PD_ATTR_FLOAT, .f = 0.9f};
        if (strcmp(type, "momentum") == 0) ok(pd_op_add_attr(op, "mu", &mu));
    }
    ok(pd_op_insert(op, block, -1, &id));
}

/* Of `rows` rows; 0: of the one that states begin with. */
static void open_site(struct site *s, const struct optimizer *o, int64_t rows)
{
    pd_prepared *plan;
    int64_t one = 1, all[2] = {rows ? rows : 1, WIDTH}, id;
    int existed;
    memset(s, 0, sizeof *s);
    ok(pd_program_create(&s->program));
    ok(pd_scope_create(NULL, &s->scope));
    add(s, "w", 2, all, 0);
    add(s, "rate", 1, &one, 0.1f);
    for (int i = 0; i < 4 && o->args[i].slot; i++)
        add(s, o->args[i].name, o->args[i].is_single ? 1 : 2, o->args[i].is_single ? &one : all,
            o->args[i].start);
    ok(pd_var_create(s->program, 0, "w@GRAD", PD_SELECTED_ROWS, &id, &existed));
    ok(pd_var_set_dtype(s->program, id, PD_FLOAT32));
    ok(pd_block_create(s->program, 0, &s->update));
    ok(pd_block_create(s->program, 0, &s->start));
    add_op(s, s->update, o->op, o);
    add_op(s, s->start, "uniform_random", NULL);
    ok(pd_executor_create(&s->executor));
    ok(pd_executor_prepare(s->executor, s->program, 0, NULL, 0, NULL, &plan));
    plan->frame->scope = s->scope;
    s->engine = pd_engine_of(plan->frame, NULL);
}

static void close_site(struct site *s, struct pd_table *table)
{
    pd_table_free(table);
    pd_executor_free(s->executor);
    pd_scope_release(s->scope);
    pd_program_free(s->program);
}

static struct pd_table *hashed(struct site *s, const char *settings)
{
    struct pd_hashed_options options;
    struct pd_rule *rule;
    struct pd_table *table;
    char text[256];
    snprintf(text, sizeof text, "w\tstart=%d%s", s->start, settings);
    ok(pd_hashed_options_read(text, &options));
    ok(pd_rule_new_of_rows(&s->engine, s->update, "w@GRAD", &rule));
    ok(pd_table_hashed_new(&s->engine, "w", pd_scope_find(s->scope, "w"), rule, &options, &table));
    return table;
}

static struct pd_table *variable(struct site *s)
{
    struct pd_rule *rule;
    struct pd_table *table;
    ok(pd_rule_new(&s->engine, s->update, "w@GRAD", &rule));
    assert_non_null(rule);
    ok(pd_table_of_value("w", pd_scope_find(s->scope, "w"), rule, &table));
    return table;
}

static void push(struct pd_table *table, int64_t n, const int64_t *ids, float scale)
{
    float grad[64 * WIDTH];
    assert_true(n <= 64);
    for (int64_t i = 0; i < n * WIDTH; i++)
        grad[i] = scale * (float)(i % 7 - 3);
    ok(table->kind->update_rows(table, 1, n, ids, grad));
}

static void pull_all(struct pd_table *table, float out[HEIGHT * WIDTH])
{
    int64_t rows[HEIGHT];
    for (int64_t i = 0; i < HEIGHT; i++)
        rows[i] = i;
    ok(table->kind->pull(table, HEIGHT, rows, out));
}

/* ---- the same bits ---- */

/* Ids of a step: ascending, with repeats in any order, or none at all. */
static int64_t ids_of(int step, int64_t ids[64])
{
    int64_t n = 0;
    if (step % 5 == 4) return 0;
    for (int64_t i = 0; i < HEIGHT && n < 60; i++)
        if ((i * 7 + step * 3) % 4 == 0) ids[n++] = step % 2 ? (i * 11) % HEIGHT : i;
    if (step % 3 == 1)
        for (int64_t i = 0; i < 5; i++)
            ids[n++] = ids[i * 2];
    return n;
}

static void test_any_optimizer(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++) {
        struct site whole, rows;
        float want[HEIGHT * WIDTH], got[HEIGHT * WIDTH];
        open_site(&whole, &optimizers[k], HEIGHT);
        open_site(&rows, &optimizers[k], 0);
        struct pd_table *a = variable(&whole), *b = hashed(&rows, "");
        /* The whole one begins with what rows by id begin with. */
        pull_all(b, got);
        pd_tensor_desc tensor;
        ok(pd_value_tensor(pd_scope_find(whole.scope, "w"), &tensor));
        memcpy(tensor.data, got, sizeof got);
        assert_int_equal(pd_table_rows(b), 0);
        for (int step = 0; step < 30; step++) {
            int64_t ids[64], n = ids_of(step, ids);
            push(a, n, ids, 0.25f);
            push(b, n, ids, 0.25f);
        }
        pull_all(a, want);
        pull_all(b, got);
        if (memcmp(want, got, sizeof want) != 0) fail_msg("%s: other bits", optimizers[k].op);
        assert_true(pd_table_rows(b) > 0 && pd_table_rows(b) <= HEIGHT);
        close_site(&whole, a);
        close_site(&rows, b);
    }
}

/* ---- which ids have a row ---- */

static const struct optimizer *const adagrad = &optimizers[2];

static void test_lookups_make_no_rows(void **state)
{
    (void)state;
    struct site s;
    float once[HEIGHT * WIDTH], again[HEIGHT * WIDTH];
    open_site(&s, adagrad, 0);
    struct pd_table *t = hashed(&s, "");
    uint64_t bytes = t->kind->bytes(t);
    pull_all(t, once);
    pull_all(t, again);
    assert_memory_equal(once, again, sizeof once);
    assert_true(once[0] != once[WIDTH] && once[0] >= -1 && once[0] <= 1);
    assert_int_equal(pd_table_rows(t), 0);
    assert_true(t->kind->bytes(t) == bytes);
    push(t, 1, (int64_t[]){3}, 1);
    assert_int_equal(pd_table_rows(t), 1);
    assert_true(t->kind->bytes(t) > bytes);
    close_site(&s, t);
}

static void test_ids_of_this_server(void **state)
{
    (void)state;
    struct site s;
    float row[WIDTH], same[WIDTH];
    open_site(&s, adagrad, 0);
    struct pd_table *t = hashed(&s, "\tfirst=1\tstep=3\theight=100"), *all;
    assert_true(t->kind->has_row(t, 1) && t->kind->has_row(t, 97) && !t->kind->has_row(t, 2));
    assert_false(t->kind->has_row(t, 100) || t->kind->has_row(t, -2));
    /* Row 5 here is id 16. */
    ok(t->kind->pull(t, 1, (int64_t[]){5}, row));
    assert_int_equal(t->kind->pull(t, 1, (int64_t[]){33}, row), PD_RANGE);
    assert_non_null(strstr(pd_error(), "row 33 of 'w', which has 33 rows here"));
    assert_int_equal(t->kind->pull(t, 1, (int64_t[]){-1}, row), PD_RANGE);
    struct site other;
    open_site(&other, adagrad, 0);
    all = hashed(&other, "");
    ok(all->kind->pull(all, 1, (int64_t[]){16}, same));
    assert_memory_equal(row, same, sizeof row);
    /* Far ids are as good as near ones. */
    int64_t far[] = {5, (int64_t)1 << 40, INT64_MAX - 1};
    push(all, 3, far, 1);
    assert_int_equal(pd_table_rows(all), 3);
    close_site(&s, t);
    close_site(&other, all);
}

static void test_admission_by_count(void **state)
{
    (void)state;
    struct site s;
    float before[WIDTH], now[WIDTH];
    open_site(&s, adagrad, 0);
    struct pd_table *t = hashed(&s, "\tcount=3");
    ok(t->kind->pull(t, 1, (int64_t[]){7}, before));
    for (int step = 1; step < 3; step++) {
        push(t, 3, (int64_t[]){7, 7, 7}, 1); /* once a step, however often */
        assert_int_equal(pd_table_rows(t), 0);
        ok(t->kind->pull(t, 1, (int64_t[]){7}, now));
        assert_memory_equal(before, now, sizeof now);
    }
    push(t, 2, (int64_t[]){7, 8}, 1);
    assert_int_equal(pd_table_rows(t), 1);
    ok(t->kind->pull(t, 1, (int64_t[]){7}, now));
    assert_true(before[0] != now[0]);
    close_site(&s, t);
}

static void test_admission_by_chance(void **state)
{
    (void)state;
    struct site s;
    open_site(&s, adagrad, 0);
    struct pd_table *t = hashed(&s, "\tchance=0.25");
    for (int64_t i = 0; i < 4000; i += 50) {
        int64_t ids[50];
        for (int64_t k = 0; k < 50; k++)
            ids[k] = i + k;
        push(t, 50, ids, 1);
    }
    assert_in_range(pd_table_rows(t), 850, 1150);
    close_site(&s, t);
}

static void test_expiry(void **state)
{
    (void)state;
    struct site s;
    float before[WIDTH], now[WIDTH];
    open_site(&s, adagrad, 0);
    struct pd_table *t = hashed(&s, "\texpires=10");
    ok(t->kind->pull(t, 1, (int64_t[]){7}, before));
    push(t, 1, (int64_t[]){7}, 1);
    for (int step = 0; step < 9; step++)
        push(t, 1, (int64_t[]){8}, 1);
    ok(t->kind->pull(t, 1, (int64_t[]){7}, now));
    assert_true(before[0] != now[0]);
    push(t, 1, (int64_t[]){8}, 1);
    ok(t->kind->pull(t, 1, (int64_t[]){7}, now));
    assert_memory_equal(before, now, sizeof now);
    push(t, 1, (int64_t[]){8}, 1); /* its room is given back */
    assert_int_equal(pd_table_rows(t), 1);
    struct pd_table_tally tally = {0};
    t->kind->tally(t, &tally);
    assert_true(tally.admitted == 2 && tally.evicted == 1 && tally.waiting_bytes == 0);
    push(t, 1, (int64_t[]){7}, 1); /* it comes again */
    t->kind->tally(t, &tally);
    assert_true(tally.admitted == 3 && tally.evicted == 1);
    /* An update finds what a lookup before it found, at each distance. */
    for (int away = 8; away < 13; away++) {
        float gone[WIDTH], last[WIDTH];
        push(t, 1, (int64_t[]){9}, 1);
        for (int step = 0; step < away; step++)
            push(t, 1, (int64_t[]){8}, 1);
        ok(t->kind->pull(t, 1, (int64_t[]){9}, last));
        push(t, 1, (int64_t[]){9}, 0); /* a gradient of zero: what there is stays */
        ok(t->kind->pull(t, 1, (int64_t[]){9}, gone));
        assert_memory_equal(last, gone, sizeof gone);
    }
    close_site(&s, t);
}

static void test_a_limit(void **state)
{
    (void)state;
    struct site s;
    open_site(&s, adagrad, 0);
    struct pd_table *t = hashed(&s, "\tmost=160");
    float row[WIDTH], fresh[WIDTH];
    ok(t->kind->pull(t, 1, (int64_t[]){0}, fresh));
    for (int64_t step = 0; step < 100; step++) {
        int64_t ids[11] = {0};
        for (int64_t k = 1; k < 11; k++)
            ids[k] = step * 10 + k;
        push(t, 11, ids, 1);
        assert_true(pd_table_rows(t) <= 160);
    }
    assert_true(pd_table_rows(t) >= 140);
    struct pd_table_tally tally = {0};
    t->kind->tally(t, &tally);
    assert_int_equal(tally.admitted, 1001);
    assert_int_equal(tally.evicted, 1001 - pd_table_rows(t));
    /* What is touched stays, the oldest go. */
    ok(t->kind->pull(t, 1, (int64_t[]){0}, row));
    assert_true(row[0] != fresh[0]);
    struct pd_value *rows;
    ok(pd_value_new(PD_KIND_SELECTED_ROWS, &rows));
    save_rows(t, t->value, rows);
    for (int i = 0; i < rows->rows.n; i++)
        assert_true(rows->rows.at[i] == 0 || rows->rows.at[i] > 800);
    pd_value_unref(rows);
    close_site(&s, t);
}

/* ---- what is kept ---- */

/* Takes up all that another one keeps. */
static pd_status take_up(struct pd_table *to, const struct pd_table *from)
{
    struct pd_table_part part;
    PD_TRY(to->kind->load(to, NULL));
    for (int i = 0; from->kind->part(from, i, &part); i++)
        PD_TRY(to->kind->load(to, &part));
    return PD_OK;
}

static void test_a_snapshot(void **state)
{
    (void)state;
    static const char *const settings[] = {"", "\tcount=3\texpires=9", "\tchance=0.5"};
    for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++)
        for (int how = 0; how < 3; how++) {
            struct site one, two;
            float want[HEIGHT * WIDTH], got[HEIGHT * WIDTH];
            open_site(&one, &optimizers[k], 0);
            struct pd_table *a = hashed(&one, settings[how]), *b = NULL;
            for (int step = 0; step < 40; step++) {
                int64_t ids[64], n = ids_of(step, ids);
                push(a, n, ids, 0.25f);
                if (step == 20) {
                    open_site(&two, &optimizers[k], 0);
                    b = hashed(&two, settings[how]);
                    for (int i = 0; i < 4 && optimizers[k].args[i].slot; i++)
                        if (optimizers[k].args[i].is_single) { /* these are variables */
                            pd_tensor_desc from, to;
                            ok(pd_value_tensor(pd_scope_find(one.scope, optimizers[k].args[i].name), &from));
                            ok(pd_value_tensor(pd_scope_find(two.scope, optimizers[k].args[i].name), &to));
                            *(float *)to.data = *(float *)from.data;
                        }
                    ok(take_up(b, a));
                } else if (step > 20) {
                    push(b, n, ids, 0.25f);
                }
            }
            pull_all(a, want);
            pull_all(b, got);
            if (memcmp(want, got, sizeof want) != 0)
                fail_msg("%s, '%s': other bits", optimizers[k].op, settings[how]);
            close_site(&one, a);
            close_site(&two, b);
        }
}

/* Rows go to the servers that have them now; what was loaded as files begins the table. */
static void test_other_servers(void **state)
{
    (void)state;
    struct site one, parts[3];
    float want[HEIGHT * WIDTH], got[WIDTH];
    open_site(&one, adagrad, 0);
    struct pd_table *a = hashed(&one, ""), *of[3];
    for (int step = 0; step < 10; step++) {
        int64_t ids[64], n = ids_of(step, ids);
        push(a, n, ids, 0.25f);
    }
    pull_all(a, want);
    int64_t rows = 0;
    for (int k = 0; k < 3; k++) {
        char settings[64];
        snprintf(settings, sizeof settings, "\tfirst=%d\tstep=3", k);
        open_site(&parts[k], adagrad, 0);
        of[k] = hashed(&parts[k], settings);
        ok(take_up(of[k], a));
        rows += pd_table_rows(of[k]);
    }
    assert_int_equal(rows, pd_table_rows(a));
    for (int64_t id = 0; id < HEIGHT; id++) {
        ok(of[id % 3]->kind->pull(of[id % 3], 1, (int64_t[]){id / 3}, got));
        assert_memory_equal(got, want + id * WIDTH, sizeof got);
    }
    /* By files: the parameter, and its state by another name. */
    struct site again;
    struct pd_value *held, *moments;
    open_site(&again, adagrad, 0);
    ok(pd_scope_var(again.scope, "w@ROWS", &held));
    save_rows(a, pd_scope_find(one.scope, "w"), held);
    ok(pd_scope_var(again.scope, "m@ROWS", &moments));
    save_rows(a, pd_scope_find(one.scope, "m"), moments);
    struct pd_table *b = hashed(&again, "");
    assert_int_equal(pd_table_rows(b), pd_table_rows(a));
    assert_int_equal(held->rows.n, 0);
    int64_t ids[64], n = ids_of(1, ids);
    float all[HEIGHT * WIDTH];
    push(a, n, ids, 0.5f);
    push(b, n, ids, 0.5f);
    pull_all(a, want);
    pull_all(b, all);
    assert_memory_equal(want, all, sizeof all);
    close_site(&again, b);
    close_site(&one, a);
    for (int k = 0; k < 3; k++)
        close_site(&parts[k], of[k]);
}

static void test_another_optimizer(void **state)
{
    (void)state;
    struct site one, two;
    open_site(&one, adagrad, 0);
    open_site(&two, &optimizers[4], 0);
    struct pd_table *a = hashed(&one, ""), *b = hashed(&two, "");
    push(a, 1, (int64_t[]){1}, 1);
    assert_int_equal(take_up(b, a), PD_SHAPE);
    assert_non_null(strstr(pd_error(), "rows of 2 x 3 numbers, the Program with 3 x 3"));
    struct pd_table_part bad = {"head", "12345678", 1, 8};
    assert_int_equal(a->kind->load(a, &bad), PD_FORMAT);
    bad = (struct pd_table_part){"rows", "12345678", 1, 8};
    assert_int_equal(a->kind->load(a, &bad), PD_FORMAT);
    bad = (struct pd_table_part){"other", "12345678", 1, 8};
    assert_int_equal(a->kind->load(a, &bad), PD_FORMAT);
    close_site(&one, a);
    close_site(&two, b);
}

/* Each request for memory fails once. An update that fails ends the job; what comes after must not crash, and
 * no row without numbers is handed out. */
static void test_memory_is_short(void **state)
{
    (void)state;
    struct site s;
    open_site(&s, adagrad, 0);
    struct pd_table *t = hashed(&s, "\tcount=2\tmost=1000");
    float all[HEIGHT * WIDTH], grad[64 * WIDTH] = {0};
    int failures = 0;
    for (int64_t step = 0; step < 60; step++) {
        int64_t ids[64];
        for (int64_t k = 0; k < 64; k++)
            ids[k] = (step / 3 * 61 + k * 7) % 900;
        pd_alloc_fail_once(1 + (uint64_t)step % 3);
        pd_status status = t->kind->update_rows(t, 1, 64, ids, grad);
        pd_alloc_fail_once(0);
        assert_true(status == PD_OK || status == PD_NO_MEMORY);
        failures += status != PD_OK;
        pull_all(t, all);
        for (int i = 0; i < HEIGHT * WIDTH; i++)
            assert_true(all[i] >= -1 && all[i] <= 1);
    }
    assert_true(failures > 0);
    close_site(&s, t);
}

static void test_settings(void **state)
{
    (void)state;
    struct pd_hashed_options o;
    ok(pd_hashed_options_read("w\tstart=2", &o));
    assert_true(o.step == 1 && o.height == INT64_MAX && o.chance == 1 && o.start == 2 && !o.count && !o.most);
    ok(pd_hashed_options_read("w\tstart=2\tfirst=1\tstep=3\tcount=4\texpires=6\tmost=7\theight=8", &o));
    assert_true(o.first == 1 && o.step == 3 && o.count == 4 && o.expires == 6 && o.most == 7 &&
                o.height == 8);
    ok(pd_hashed_options_read("w\tstart=2\tchance=0.5", &o));
    assert_true(o.chance == 0.5 && !o.count);
    static const char *const bad[] = {"w",
                                      "w\tstart=0",
                                      "w\tstart=1\tfirst=3\tstep=3",
                                      "w\tstart=1\tchance=0",
                                      "w\tstart=1\tchance=1.5",
                                      "w\tstart=1\tchance=0.5\tcount=2",
                                      "w\tstart=1\tcounts=3",
                                      "w\tstart=1\tcount=x",
                                      "w\tstart=1\tmost=-1",
                                      "w\tstart=1\tstep=0",
                                      "w\tstart=1\t"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(pd_hashed_options_read(bad[i], &o), PD_INVALID);
    assert_non_null(strstr(pd_error(), "docs/TABLES.md")); /* of the last one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_optimizer),
        cmocka_unit_test(test_lookups_make_no_rows),
        cmocka_unit_test(test_ids_of_this_server),
        cmocka_unit_test(test_admission_by_count),
        cmocka_unit_test(test_admission_by_chance),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_a_limit),
        cmocka_unit_test(test_a_snapshot),
        cmocka_unit_test(test_other_servers),
        cmocka_unit_test(test_another_optimizer),
        cmocka_unit_test(test_memory_is_short),
        cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
