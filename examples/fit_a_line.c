/* fit_a_line in C: builds the Program, derives its gradients, trains, saves, and loads again in a second
 * scope.
 *
 *     include=$(python -c 'import paddle; print(paddle.sysconfig.get_include())')
 *     lib=$(python -c 'import paddle; print(paddle.sysconfig.get_lib())')
 *     cc fit_a_line.c -I$include -L$lib -Wl,-rpath,$lib -lpaddle -o fit_a_line && ./fit_a_line [folder]
 *
 * The data are made up: y = 3 x0 - 2 x1 + ... + noise. Prints the loss now and then, and the largest
 * difference between the predictions of the trained and of the reloaded model, which is 0. */
#include <paddle/paddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 13, BATCH = 20, STEPS = 400 };

static void must(pd_status status)
{
    if (status == PD_OK) return;
    fprintf(stderr, "%s: %s\n", pd_status_name(status), pd_error());
    exit(1);
}

static void add_var(pd_program *p, const char *name, int rank, const int64_t *dims, unsigned flags)
{
    int64_t id;
    int existed;
    must(pd_var_create(p, 0, name, PD_LOD_TENSOR, &id, &existed));
    must(pd_var_set_dtype(p, id, PD_FLOAT32));
    must(pd_var_set_shape(p, id, rank, dims));
    must(pd_var_set_flags(p, id, ~0u, flags));
}

/* One op with up to three inputs and one output; slots are given as "Slot=variable", NULL ends the list. */
static pd_op_builder *begin(pd_program *p, const char *type, const char *out, const char *const *in)
{
    pd_op_builder *op;
    char slot[64];
    must(pd_op_begin(p, type, &op));
    for (; in && *in; in++) {
        const char *eq = strchr(*in, '=');
        snprintf(slot, sizeof slot, "%.*s", (int)(eq - *in), *in);
        must(pd_op_add_arg(op, 0, slot, eq + 1));
    }
    const char *eq = strchr(out, '=');
    snprintf(slot, sizeof slot, "%.*s", (int)(eq - out), out);
    must(pd_op_add_arg(op, 1, slot, eq + 1));
    return op;
}

static void end(pd_op_builder *op)
{
    int64_t id;
    must(pd_op_insert(op, 0, -1, &id));
}

#define IN(...) ((const char *const[]){__VA_ARGS__, NULL})

static pd_program *build_main(void)
{
    pd_program *p;
    must(pd_program_create(&p));
    add_var(p, "x", 2, (int64_t[]){-1, FEATURES}, PD_VAR_IS_FEED | PD_VAR_STOPS_GRADIENT);
    add_var(p, "y", 2, (int64_t[]){-1, 1}, PD_VAR_IS_FEED | PD_VAR_STOPS_GRADIENT);
    add_var(p, "w", 2, (int64_t[]){FEATURES, 1},
            PD_VAR_IS_PERSISTABLE | PD_VAR_IS_PARAMETER | PD_VAR_IS_TRAINABLE);
    add_var(p, "b", 1, (int64_t[]){1}, PD_VAR_IS_PERSISTABLE | PD_VAR_IS_PARAMETER | PD_VAR_IS_TRAINABLE);
    add_var(p, "rate", 1, (int64_t[]){1}, PD_VAR_IS_PERSISTABLE | PD_VAR_STOPS_GRADIENT);
    end(begin(p, "mul", "Out=xw", IN("X=x", "Y=w")));
    end(begin(p, "elementwise_add", "Out=predict", IN("X=xw", "Y=b")));
    end(begin(p, "elementwise_sub", "Out=error", IN("X=predict", "Y=y")));
    end(begin(p, "square", "Out=square", IN("X=error")));
    end(begin(p, "mean", "Out=loss", IN("X=square")));
    return p;
}

static void add_training(pd_program *p)
{
    pd_param_grad *pairs;
    int n;
    must(pd_append_backward(p, "loss", NULL, &pairs, &n));
    for (int i = 0; i < n; i++) {
        pd_op_builder *op;
        must(pd_op_begin(p, "sgd", &op));
        must(pd_op_add_arg(op, 0, "Param", pairs[i].param));
        must(pd_op_add_arg(op, 0, "Grad", pairs[i].grad));
        must(pd_op_add_arg(op, 0, "LearningRate", "rate"));
        must(pd_op_add_arg(op, 1, "ParamOut", pairs[i].param));
        end(op);
    }
    pd_pairs_free(pairs);
}

static pd_program *build_startup(void)
{
    pd_program *p;
    must(pd_program_create(&p));
    add_var(p, "w", 2, (int64_t[]){FEATURES, 1}, PD_VAR_IS_PERSISTABLE);
    add_var(p, "b", 1, (int64_t[]){1}, PD_VAR_IS_PERSISTABLE);
    add_var(p, "rate", 1, (int64_t[]){1}, PD_VAR_IS_PERSISTABLE);
    pd_op_builder *op = begin(p, "uniform_random", "Out=w", NULL);
    must(pd_op_add_ints(op, "shape", 2, (int32_t[]){FEATURES, 1}));
    must(pd_op_add_float(op, "min", -0.5f));
    must(pd_op_add_float(op, "max", 0.5f));
    must(pd_op_add_int(op, "dtype", PD_FLOAT32));
    end(op);
    const struct {
        const char *out;
        float value;
    } constants[] = {{"Out=b", 0.0f}, {"Out=rate", 0.1f}};
    for (int i = 0; i < 2; i++) {
        op = begin(p, "fill_constant", constants[i].out, NULL);
        must(pd_op_add_ints(op, "shape", 1, (int32_t[]){1}));
        must(pd_op_add_float(op, "value", constants[i].value));
        must(pd_op_add_int(op, "dtype", PD_FLOAT32));
        end(op);
    }
    return p;
}

/* A Program that saves or loads the parameters, one file each. */
static pd_program *build_files(const char *type, const char *folder)
{
    pd_program *p;
    char path[512];
    const char *names[] = {"w", "b"};
    must(pd_program_create(&p));
    add_var(p, "w", 2, (int64_t[]){FEATURES, 1}, PD_VAR_IS_PERSISTABLE);
    add_var(p, "b", 1, (int64_t[]){1}, PD_VAR_IS_PERSISTABLE);
    for (int i = 0; i < 2; i++) {
        pd_op_builder *op;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        must(pd_op_begin(p, type, &op));
        must(pd_op_add_arg(op, strcmp(type, "load") == 0, strcmp(type, "load") == 0 ? "Out" : "X", names[i]));
        must(pd_op_add_text(op, "file_path", path));
        end(op);
    }
    return p;
}

static float noise(void)
{
    return (float)rand() / (float)RAND_MAX * 2 - 1;
}

static void make_batch(float *x, float *y)
{
    for (int i = 0; i < BATCH; i++) {
        y[i] = 0.5f + 0.01f * noise();
        for (int k = 0; k < FEATURES; k++) {
            x[i * FEATURES + k] = noise();
            y[i] += x[i * FEATURES + k] * (float)(3 - k % 6);
        }
    }
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "fit_a_line_c.model";
    pd_program *startup = build_startup(), *train = build_main(), *test;
    must(pd_program_copy(train, 0, &test));
    add_training(train);
    pd_scope *scope, *second;
    pd_executor *exe;
    must(pd_scope_create(NULL, &scope));
    must(pd_scope_create(NULL, &second));
    must(pd_executor_create(&exe));
    must(pd_executor_run(exe, startup, scope, 0, NULL, NULL, 0, NULL, NULL));

    float x[BATCH * FEATURES], y[BATCH], first = 0, last = 0;
    const char *feeds[] = {"x", "y"}, *fetches[] = {"loss"};
    pd_prepared *step;
    must(pd_executor_prepare(exe, train, 2, feeds, 1, fetches, &step));
    for (int i = 0; i < STEPS; i++) {
        pd_tensor_desc loss;
        make_batch(x, y);
        must(pd_prepared_feed(step, 0, PD_FLOAT32, 2, (int64_t[]){BATCH, FEATURES}, x, 0, NULL, NULL));
        must(pd_prepared_feed(step, 1, PD_FLOAT32, 2, (int64_t[]){BATCH, 1}, y, 0, NULL, NULL));
        must(pd_prepared_run(step, scope, NULL));
        must(pd_value_tensor(pd_prepared_fetch(step, 0), &loss));
        last = *(const float *)loss.data;
        if (i == 0) first = last;
        if (i % 100 == 0) printf("step %3d  loss %.6f\n", i, last);
    }
    printf("loss %.6f -> %.6f\n", first, last);

    must(pd_executor_run(exe, build_files("save", folder), scope, 0, NULL, NULL, 0, NULL, NULL));
    must(pd_executor_run(exe, build_files("load", folder), second, 0, NULL, NULL, 0, NULL, NULL));
    pd_value *vx, *vy, *mine, *theirs;
    must(pd_value_create(PD_LOD_TENSOR, &vx));
    must(pd_value_create(PD_LOD_TENSOR, &vy));
    must(pd_value_set_tensor(vx, PD_FLOAT32, 2, (int64_t[]){BATCH, FEATURES}, x));
    must(pd_value_set_tensor(vy, PD_FLOAT32, 2, (int64_t[]){BATCH, 1}, y));
    const char *predict[] = {"predict"};
    must(pd_executor_run(exe, test, scope, 2, feeds, (const pd_value *[]){vx, vy}, 1, predict, &mine));
    must(pd_executor_run(exe, test, second, 2, feeds, (const pd_value *[]){vx, vy}, 1, predict, &theirs));
    pd_tensor_desc a, b;
    must(pd_value_tensor(mine, &a));
    must(pd_value_tensor(theirs, &b));
    int same = memcmp(a.data, b.data, BATCH * sizeof(float)) == 0;
    printf("saved to %s, loaded again: predictions %s\n", folder, same ? "are the same" : "DIFFER");

    pd_value_release(vx);
    pd_value_release(vy);
    pd_value_release(mine);
    pd_value_release(theirs);
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_scope_release(second);
    pd_program_free(startup);
    pd_program_free(train);
    pd_program_free(test);
    return same && last < 0.01f ? 0 : 1;
}
