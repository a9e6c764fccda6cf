/* How fast rows by id are, without a network: the row store alone, and a table of it as a server calls it.
 *
 *     bench_rows [rows [seconds]]
 *
 * Prints one line of JSON. CPU seconds of this thread count, so that others on the machine matter less; they
 * still take its caches. Ids are drawn evenly, 10,000 a batch, in rows of 10 floats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "exec/executor.h"
#include "kernels/row_store.h"
#include "pserver/shard/table_hashed.h"
#include <paddle/paddle.h>

enum { WIDTH = 10, BATCH = 10000 };

static uint64_t drawn = 88172645463325252u;

static int64_t draw(int64_t below)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return (int64_t)(drawn % (uint64_t)below);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(pd_status status)
{
    if (status == PD_OK) return;
    fprintf(stderr, "%s\n", pd_error());
    exit(1);
}

static int64_t ids[BATCH];
static struct pd_row *found[BATCH];
static float grad[BATCH * WIDTH], out[BATCH * WIDTH];

/* Ids that are far from each other, as hashed ones are. */
static int64_t id_of(int64_t k)
{
    return k * 2654435761;
}

static void draw_ids(int64_t rows)
{
    for (int i = 0; i < BATCH; i++)
        ids[i] = id_of(draw(rows));
}

/* ---- a floor for all of it: rows of a fixed height, whose numbers are their places ---- */

static void measure_plain(int64_t rows, double seconds)
{
    float *all = pd_malloc_aligned((size_t)rows * WIDTH * sizeof *all);
    double t = 0;
    int64_t n = 0;
    if (!all) must(pd_no_memory());
    memset(all, 0, (size_t)rows * WIDTH * sizeof *all);
    for (; t < seconds; n += BATCH) {
        for (int i = 0; i < BATCH; i++)
            ids[i] = draw(rows);
        double begin = now();
        for (int i = 0; i < BATCH; i++) {
            if (i + 16 < BATCH) __builtin_prefetch(all + ids[i + 16] * WIDTH, 1);
            for (int k = 0; k < WIDTH; k++)
                all[ids[i] * WIDTH + k] -= 0.1f * grad[i * WIDTH + k];
        }
        t += now() - begin;
    }
    printf("\"plain_updates\": %.0f, ", (double)n / t);
    pd_free_aligned(all);
}

static void measure_store(int64_t rows, double seconds)
{
    struct pd_row_store *store;
    double made = 0, worst = 0, looked = 0, updated = 0;
    int64_t n = 0;
    must(pd_row_store_new(WIDTH, &store));
    for (int64_t k = 0; k < rows; k += BATCH) {
        for (int i = 0; i < BATCH; i++)
            ids[i] = id_of(k + i);
        double begin = now();
        must(pd_row_store_make(store, BATCH, ids, found));
        double took = now() - begin;
        made += took;
        if (took > worst) worst = took;
        for (int i = 0; i < BATCH; i++) {
            found[i]->count = 1;
            memset(found[i]->x, 0, sizeof(float) * WIDTH);
        }
    }
    for (; looked < seconds; n += BATCH) {
        draw_ids(rows);
        double begin = now();
        pd_row_store_find(store, BATCH, ids, found);
        for (int i = 0; i < BATCH; i++)
            memcpy(out + i * WIDTH, found[i]->x, WIDTH * sizeof *out);
        looked += now() - begin;
        draw_ids(rows);
        begin = now();
        must(pd_row_store_make(store, BATCH, ids, found));
        for (int i = 0; i < BATCH; i++)
            for (int k = 0; k < WIDTH; k++)
                found[i]->x[k] -= 0.1f * grad[i * WIDTH + k];
        updated += now() - begin;
    }
    printf("\"store_inserts\": %.0f, \"store_worst_insert_ms\": %.3f, \"store_lookups\": %.0f, "
           "\"store_updates\": "
           "%.0f, \"store_bytes_a_row\": %.2f, \"promised_bytes_a_row\": %.2f, ",
           (double)rows / made, worst * 1e3, (double)n / looked, (double)n / updated,
           (double)pd_row_store_bytes(store) / (double)pd_row_store_rows(store), 4 * WIDTH * 1.15 + 24);
    pd_row_store_free(store);
}

/* ---- the table, with SGD ---- */

static void add_var(pd_program *program, pd_scope *scope, const char *name, int rank, const int64_t *dims)
{
    int64_t id;
    int existed;
    pd_value *held;
    pd_tensor_desc tensor;
    must(pd_var_create(program, 0, name, PD_LOD_TENSOR, &id, &existed));
    must(pd_var_set_dtype(program, id, PD_FLOAT32));
    must(pd_var_set_shape(program, id, rank, dims));
    must(pd_var_set_flags(program, id, PD_VAR_IS_PERSISTABLE, PD_VAR_IS_PERSISTABLE));
    must(pd_scope_var(scope, name, &held));
    must(pd_value_set_tensor(held, PD_FLOAT32, rank, dims, NULL));
    must(pd_value_tensor(held, &tensor));
    memset(tensor.data, 0, (size_t)dims[rank - 1] * sizeof(float));
}

static struct pd_table *open_table(void)
{
    static const char *const args[][3] = {
        {"i", "Param", "w"}, {"i", "Grad", "w@GRAD"}, {"i", "LearningRate", "rate"}, {"o", "ParamOut", "w"}};
    int64_t one = 1, row[2] = {1, WIDTH}, id;
    int update, start, existed;
    pd_program *program;
    pd_scope *scope;
    pd_executor *executor;
    pd_prepared *plan;
    pd_op_builder *op;
    struct pd_rule *rule;
    struct pd_table *table;
    struct pd_hashed_options options;
    char text[64];
    must(pd_program_create(&program));
    must(pd_scope_create(NULL, &scope));
    add_var(program, scope, "w", 2, row);
    add_var(program, scope, "rate", 1, &one);
    must(pd_var_create(program, 0, "w@GRAD", PD_SELECTED_ROWS, &id, &existed));
    must(pd_var_set_dtype(program, id, PD_FLOAT32));
    must(pd_block_create(program, 0, &update));
    must(pd_block_create(program, 0, &start));
    must(pd_op_begin(program, "sgd", &op));
    for (int i = 0; i < 4; i++)
        must(pd_op_add_arg(op, args[i][0][0] == 'o', args[i][1], args[i][2]));
    must(pd_op_insert(op, update, -1, &id));
    must(pd_op_begin(program, "uniform_random", &op));
    must(pd_op_add_arg(op, 1, "Out", "w"));
    struct pd_attr shape = {.type = PD_ATTR_LONGS, .n = 2, .longs = row};
    must(pd_op_add_attr(op, "shape", &shape));
    must(pd_op_insert(op, start, -1, &id));
    must(pd_executor_create(&executor));
    must(pd_executor_prepare(executor, program, 0, NULL, 0, NULL, &plan));
    plan->frame->scope = scope;
    struct pd_engine engine = pd_engine_of(plan->frame, NULL);
    snprintf(text, sizeof text, "w\tstart=%d", start);
    must(pd_hashed_options_read(text, &options));
    must(pd_rule_new_of_rows(&engine, update, "w@GRAD", &rule));
    must(pd_table_hashed_new(&engine, "w", pd_scope_find(scope, "w"), rule, &options, &table));
    return table;
}

static void measure_table(int64_t rows, double seconds)
{
    struct pd_table *table = open_table(); /* the Program stays until the end */
    double made = 0, looked = 0, updated = 0;
    int64_t n = 0;
    for (int64_t k = 0; k < rows; k += BATCH) {
        for (int i = 0; i < BATCH; i++)
            ids[i] = id_of(k + i);
        double begin = now();
        must(table->kind->update_rows(table, 1, BATCH, ids, grad));
        made += now() - begin;
    }
    for (; looked < seconds; n += BATCH) {
        draw_ids(rows);
        double begin = now();
        must(table->kind->pull(table, BATCH, ids, out));
        looked += now() - begin;
        draw_ids(rows);
        begin = now();
        must(table->kind->update_rows(table, 1, BATCH, ids, grad));
        updated += now() - begin;
    }
    printf("\"table_inserts\": %.0f, \"table_lookups\": %.0f, \"table_updates\": %.0f", (double)rows / made,
           (double)n / looked, (double)n / updated);
    pd_table_free(table);
}

int main(int argc, char **argv)
{
    int64_t rows = argc > 1 ? strtoll(argv[1], NULL, 10) : 10000000;
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 2;
    rows = (rows + BATCH - 1) / BATCH * BATCH;
    for (int i = 0; i < BATCH * WIDTH; i++)
        grad[i] = 0.001f * (float)(i % 100);
    printf("{\"rows\": %lld, \"width\": %d, ", (long long)rows, WIDTH);
    measure_plain(rows, seconds);
    measure_store(rows, seconds);
    measure_table(rows, seconds);
    printf("}\n");
    return 0;
}
