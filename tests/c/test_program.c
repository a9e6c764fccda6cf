/* Tests of src/program and src/passes: building, errors, copies, files, gradients, pruning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "passes/passes.h"
#include "toy_ops.h"

/* loss = total((x + w)^2 + w) */
static struct pd_program *make(void)
{
    struct pd_program *p;
    assert_int_equal(pd_program_new(&toy_ops, &p), PD_OK);
    assert_int_equal(toy_var(p, "x", -1, PD_VAR_STOP_GRADIENT | PD_VAR_IS_DATA), PD_OK);
    assert_int_equal(toy_var(p, "w", 3, PD_VAR_PERSISTABLE | PD_VAR_PARAMETER | PD_VAR_TRAINABLE), PD_OK);
    assert_int_equal(toy_op(p, "toy_add", "x", "w", "a"), PD_OK);
    assert_int_equal(toy_op(p, "toy_square", "a", NULL, "s"), PD_OK);
    assert_int_equal(toy_op(p, "toy_add", "s", "w", "t"), PD_OK);
    assert_int_equal(toy_op(p, "toy_total", "t", NULL, "loss"), PD_OK);
    return p;
}

static void shapes_are_inferred(void **state)
{
    (void)state;
    struct pd_program *p = make();
    const struct pd_var *a = pd_block_var(p->blocks.at[0], "a"),
                        *loss = pd_block_var(p->blocks.at[0], "loss");
    assert_int_equal(a->meta.dim[0], -1);
    assert_int_equal(loss->meta.dim[0], 1);
    assert_int_equal(loss->meta.dtype, PD_DTYPE_FP32);
    pd_program_unref(p);
}

static void errors_name_op_slot_and_variable(void **state)
{
    (void)state;
    struct pd_program *p = make();
    int ops = p->blocks.at[0]->ops.n;
    assert_int_equal(toy_op(p, "toy_add", "x", NULL, "q"), PD_INVALID);
    assert_non_null(strstr(pd_error(), "toy_add"));
    assert_non_null(strstr(pd_error(), "'Y'"));
    assert_int_equal(toy_op(p, "toy_add", "x", "nobody", "q"), PD_NOT_FOUND);
    assert_non_null(strstr(pd_error(), "nobody"));
    assert_int_equal(toy_op(p, "no_such_op", "x", NULL, "q"), PD_NOT_FOUND);
    assert_non_null(strstr(pd_error(), "no_such_op"));
    assert_int_equal(toy_var(p, "v5", 5, 0), PD_OK);
    assert_int_equal(toy_op(p, "toy_add", "w", "v5", "q"), PD_SHAPE);
    assert_non_null(strstr(pd_error(), "X=w [3]"));
    struct pd_opdesc *op;
    assert_int_equal(pd_opdesc_new(p, "fill_constant", &op), PD_OK);
    struct pd_attr text = {.type = PD_ATTR_STRING, .s = "one"};
    assert_int_equal(pd_opdesc_set_attr(op, "value", &text, 1), PD_TYPE);
    assert_int_equal(pd_opdesc_set_attr(op, "valeu", &text, 1), PD_NOT_FOUND);
    assert_non_null(strstr(pd_error(), "shape, value, dtype"));
    pd_opdesc_free(op);
    assert_int_equal(p->blocks.at[0]->ops.n, ops);
    pd_program_unref(p);
}

static void attributes_convert_where_nothing_is_lost(void **state)
{
    (void)state;
    struct pd_attr out, i = {.type = PD_ATTR_INT, .i = 3}, f = {.type = PD_ATTR_FLOAT, .f = 2.5f};
    assert_int_equal(pd_attr_convert(&out, PD_ATTR_FLOAT, &i), PD_OK);
    assert_true(out.f == 3.0f);
    assert_int_equal(pd_attr_convert(&out, PD_ATTR_INT, &f), PD_TYPE);
    assert_int_equal(pd_attr_convert(&out, PD_ATTR_LONGS, &i), PD_OK);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.longs[0], 3);
    pd_attr_free(&out);
    struct pd_attr list = {.type = PD_ATTR_INTS, .n = 2, .ints = (int32_t[]){4, 5}};
    assert_int_equal(pd_attr_convert(&out, PD_ATTR_FLOATS, &list), PD_OK);
    assert_true(out.floats[1] == 5.0f);
    pd_attr_free(&out);
    struct pd_attr big = {.type = PD_ATTR_LONG, .l = 1ll << 40};
    assert_int_equal(pd_attr_convert(&out, PD_ATTR_INT, &big), PD_TYPE);
}

static pd_status rename_var(struct pd_var *var, const char *name)
{
    return pd_block_rename_vars(var->block, 1, &var, &name);
}

static void many_names_change_at_once(void **state)
{
    (void)state;
    struct pd_program *p = make();
    struct pd_block *block = p->blocks.at[0];
    struct pd_var *vars[] = {pd_block_var(block, "a"), pd_block_var(block, "w")},
                  *twice[] = {vars[0], vars[0]};
    assert_int_equal(pd_block_rename_vars(block, 2, vars, (const char *[]){"a2", "a2"}), PD_EXISTS);
    assert_int_equal(pd_block_rename_vars(block, 2, twice, (const char *[]){"a2", "a3"}), PD_EXISTS);
    assert_int_equal(pd_block_rename_vars(block, 2, vars, (const char *[]){"w", "w2"}), PD_EXISTS);
    assert_null(pd_block_var(block, "a2"));
    assert_ptr_equal(pd_block_var(block, "a"), vars[0]);
    assert_string_equal(pd_opdesc_arg(block->ops.at[0], 1, "Out"), "a");
    assert_int_equal(pd_block_rename_vars(block, 2, vars, (const char *[]){"a2", "w2"}), PD_OK);
    assert_string_equal(pd_opdesc_arg(block->ops.at[0], 1, "Out"), "a2");
    assert_string_equal(pd_opdesc_arg(block->ops.at[1], 0, "X"), "a2");
    assert_ptr_equal(pd_block_var(block, "w2"), vars[1]);
    assert_null(pd_block_var(block, "w"));
    pd_program_unref(p);
}

static void ids_are_stable_and_gone_when_removed(void **state)
{
    (void)state;
    struct pd_program *p = make();
    struct pd_block *block = p->blocks.at[0];
    int64_t var = pd_block_var(block, "a")->id, op = block->ops.at[3]->id;
    uint64_t version = p->version;
    pd_block_remove_op(block, 3);
    assert_null(pd_program_op(p, op));
    assert_true(p->version > version);
    assert_int_equal(rename_var(pd_program_var(p, var), "renamed"), PD_OK);
    assert_string_equal(pd_opdesc_arg(block->ops.at[0], 1, "Out"), "renamed");
    assert_string_equal(pd_opdesc_arg(block->ops.at[1], 0, "X"), "renamed");
    assert_int_equal(rename_var(pd_program_var(p, var), "w"), PD_EXISTS);
    assert_int_equal(pd_var_remove(pd_program_var(p, var)), PD_OK);
    assert_null(pd_program_var(p, var));
    pd_program_unref(p);
}

static void assert_positions(struct pd_block *block, int first)
{
    for (int i = 0; i < block->ops.n; i++) {
        int at = (first + i) % block->ops.n;
        assert_int_equal(pd_block_op_index(block, block->ops.at[at]), at);
    }
}

static void positions_are_right_after_any_change(void **state)
{
    (void)state;
    struct pd_program *p = make();
    struct pd_block *block = p->blocks.at[0];
    unsigned random = 1;
    for (int i = 0; i < 300; i++) {
        struct pd_opdesc *op;
        random = random * 1103515245u + 12345u;
        int at = (int)(random >> 16) % (block->ops.n + 1);
        if (i % 5 == 4 && at < block->ops.n) {
            pd_block_remove_op(block, at);
        } else {
            assert_int_equal(pd_opdesc_new(p, "toy_square", &op), PD_OK);
            assert_int_equal(pd_opdesc_add_arg(op, 0, "X", "w"), PD_OK);
            assert_int_equal(pd_opdesc_add_arg(op, 1, "Out", "s"), PD_OK);
            assert_int_equal(pd_block_insert(block, at, op, 0), PD_OK);
            assert_int_equal(pd_block_op_index(block, op), at);
        }
        if (i % 3 == 0) assert_positions(block, at);
    }
    pd_program_unref(p);
}

static struct pd_place square_before(struct pd_program *p, int before)
{
    struct pd_place place = {.before = before};
    assert_int_equal(pd_opdesc_new(p, "toy_square", &place.op), PD_OK);
    assert_int_equal(pd_opdesc_add_arg(place.op, 0, "X", "w"), PD_OK);
    assert_int_equal(pd_opdesc_add_arg(place.op, 1, "Out", "s"), PD_OK);
    return place;
}

static void many_ops_go_in_at_once(void **state)
{
    (void)state;
    struct pd_program *p = make();
    struct pd_block *block = p->blocks.at[0];
    struct pd_opdesc *was[4];
    memcpy(was, block->ops.at, sizeof was);
    assert_positions(block, 0);
    struct pd_place in[] = {square_before(p, 4), square_before(p, 2), square_before(p, 2),
                            square_before(p, 0)};
    assert_int_equal(pd_block_insert_many(block, 4, in), PD_OK);
    const struct pd_opdesc *now[] = {in[3].op, was[0], was[1], in[2].op, in[1].op, was[2], was[3], in[0].op};
    assert_int_equal(block->ops.n, 8);
    assert_memory_equal(block->ops.at, now, sizeof now);
    assert_positions(block, 0);
    struct pd_place bad[] = {square_before(p, 1), square_before(p, 0)};
    assert_int_equal(pd_opdesc_set_args(bad[1].op, 0, "X", 1, (const char *[]){"nobody"}), PD_OK);
    assert_int_equal(pd_block_insert_many(block, 2, bad), PD_NOT_FOUND);
    assert_memory_equal(block->ops.at, now, sizeof now);
    pd_opdesc_free(bad[0].op);
    pd_opdesc_free(bad[1].op);
    pd_program_unref(p);
}

static void many_parts_go_at_once(void **state)
{
    (void)state;
    struct pd_program *p = make();
    struct pd_block *block = p->blocks.at[0];
    char *gone = pd_calloc((size_t)p->op_by_id.n, 1);
    struct pd_opdesc *first = block->ops.at[0], *last = block->ops.at[3];
    int64_t op = block->ops.at[1]->id, var = pd_block_var(block, "s")->id;
    assert_positions(block, 0);
    gone[op] = gone[block->ops.at[2]->id] = gone[var] = 1;
    pd_program_remove(p, gone);
    pd_free(gone);
    assert_int_equal(block->ops.n, 2);
    assert_ptr_equal(block->ops.at[0], first);
    assert_int_equal(pd_block_op_index(block, last), 1);
    assert_null(pd_program_op(p, op));
    assert_null(pd_program_var(p, var));
    assert_null(pd_block_var(block, "s"));
    assert_non_null(pd_block_var(block, "t"));
    assert_int_equal(pd_var_remove(pd_block_var(block, "a")), PD_OK);
    assert_null(pd_block_var(block, "a"));
    for (int i = 0; i < block->vars.n; i++)
        assert_ptr_equal(pd_block_var(block, block->vars.at[i]->name), block->vars.at[i]);
    pd_program_unref(p);
}

static void a_name_of_an_inner_block_stays(void **state)
{
    (void)state;
    struct pd_program *p = make();
    struct pd_block *block = p->blocks.at[0], *inner[2];
    struct pd_opdesc *op[2];
    struct pd_var *own;
    int existed;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pd_block_new(p, 0, &inner[i]), PD_OK);
        assert_int_equal(pd_opdesc_new(p, "toy_square", &op[i]), PD_OK);
        assert_int_equal(pd_opdesc_set_args(op[i], 0, "X", 1, (const char *[]){"a"}), PD_OK);
        assert_int_equal(pd_opdesc_set_args(op[i], 1, "Out", 1, (const char *[]){"b"}), PD_OK);
        assert_int_equal(pd_block_insert(inner[i], 0, op[i], 1), PD_OK);
    }
    assert_int_equal(pd_var_new(inner[1], "a", PD_KIND_TENSOR, &own, &existed), PD_OK);
    assert_int_equal(rename_var(pd_block_var(block, "a"), "renamed"), PD_OK);
    assert_string_equal(pd_opdesc_arg(block->ops.at[0], 1, "Out"), "renamed");
    assert_string_equal(pd_opdesc_arg(op[0], 0, "X"), "renamed");
    assert_string_equal(pd_opdesc_arg(op[1], 0, "X"), "a");
    pd_program_unref(p);
}

static const char *one_grad(struct pd_program *p, const char *wanted)
{
    const char *grad = NULL, *loss = "loss";
    struct pd_backward_spec spec = {.block = p->blocks.at[0],
                                    .n_targets = 1,
                                    .targets = &loss,
                                    .loss = 1,
                                    .n_wanted = 1,
                                    .wanted = &wanted};
    assert_int_equal(pd_pass_backward(&spec, &grad), PD_OK);
    return grad;
}

static void gradients_of_a_shared_variable_add_up(void **state)
{
    (void)state;
    struct pd_program *p = make();
    assert_string_equal(one_grad(p, "w"), "w@GRAD");
    const struct pd_block *block = p->blocks.at[0];
    const struct pd_opdesc *last = block->ops.at[block->ops.n - 1];
    assert_string_equal(last->type, "sum");
    assert_string_equal(pd_opdesc_slot(last, 0, "X")->args.at[0], "w@GRAD@RENAME@block0@0");
    /* x is data: no gradient op writes one for it. */
    assert_null(pd_block_var(block, "x@GRAD"));
    /* A second pass takes names of its own. */
    assert_string_equal(one_grad(p, "w"), "w@GRAD_0");
    pd_program_unref(p);
}

static void copies_keep_ids_and_drop_training(void **state)
{
    (void)state;
    struct pd_program *p = make(), *copy;
    int forward = p->blocks.at[0]->ops.n;
    int64_t w = pd_block_var(p->blocks.at[0], "w")->id;
    one_grad(p, "w");
    assert_int_equal(pd_program_clone(p, 1, &copy), PD_OK);
    assert_int_equal(copy->blocks.at[0]->ops.n, forward);
    assert_string_equal(pd_program_var(copy, w)->name, "w");
    assert_null(pd_block_var(copy->blocks.at[0], "w@GRAD"));
    struct pd_var *fresh;
    int existed;
    assert_int_equal(pd_var_new(copy->blocks.at[0], "fresh", PD_KIND_TENSOR, &fresh, &existed), PD_OK);
    assert_true(fresh->id >= p->var_by_id.n);
    pd_program_unref(copy);
    pd_program_unref(p);
}

static void files_hold_the_whole_program(void **state)
{
    (void)state;
    struct pd_program *p = make(), *again;
    one_grad(p, "w");
    struct pd_buf bytes = {0}, first = {0}, second = {0};
    assert_int_equal(pd_program_write(p, &bytes), PD_OK);
    assert_int_equal(pd_program_read(&toy_ops, bytes.at, bytes.n, &again), PD_OK);
    /* What only we know (parameter, stop_gradient) is not in upstream's format; ops and shapes are. */
    pd_block_var(again->blocks.at[0], "w")->flags = pd_block_var(p->blocks.at[0], "w")->flags;
    pd_block_var(again->blocks.at[0], "x")->flags = pd_block_var(p->blocks.at[0], "x")->flags;
    /* Beside it gradient ops get the hints that upstream reads without a default, and only these. */
    for (int i = 0; i < again->blocks.at[0]->ops.n; i++) {
        struct pd_opdesc *op = again->blocks.at[0]->ops.at[i];
        int is_grad = strstr(op->type, "_grad") != NULL;
        assert_int_equal(is_grad, pd_opdesc_attr(op, "use_mkldnn") != NULL);
        assert_int_equal(is_grad, pd_opdesc_attr(op, "use_cudnn") != NULL);
        pd_opdesc_remove_attr(op, "use_mkldnn");
        pd_opdesc_remove_attr(op, "use_cudnn");
    }
    assert_int_equal(pd_program_print(p, &first), PD_OK);
    assert_int_equal(pd_program_print(again, &second), PD_OK);
    assert_string_equal(first.at, second.at);
    pd_program_unref(again);
    for (size_t cut = 0; cut < bytes.n; cut += 7) /* damaged files give errors or Programs, never crashes */
        if (pd_program_read(&toy_ops, bytes.at, cut, &again) == PD_OK) pd_program_unref(again);
    pd_buf_free(&bytes);
    pd_buf_free(&first);
    pd_buf_free(&second);
    pd_program_unref(p);
}

static void pruning_keeps_what_a_target_needs(void **state)
{
    (void)state;
    struct pd_program *p = make();
    assert_int_equal(pd_pass_prune(p, 1, (const char *[]){"a"}, 1, (const char *[]){"s"}), PD_OK);
    assert_int_equal(p->blocks.at[0]->ops.n, 1);
    assert_string_equal(p->blocks.at[0]->ops.at[0]->type, "toy_square");
    assert_null(pd_block_var(p->blocks.at[0], "w"));
    pd_program_unref(p);
}

/* Every request for memory fails once: errors come back clean and nothing leaks (the sanitizer build looks).
 */
static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct pd_program *p = NULL, *copy = NULL;
        const char *grad = NULL, *loss = "loss", *w = "w";
        pd_alloc_fail_at(n);
        pd_status status = pd_program_new(&toy_ops, &p);
        if (status == PD_OK) status = toy_var(p, "x", -1, PD_VAR_STOP_GRADIENT);
        if (status == PD_OK) status = toy_var(p, "w", 3, PD_VAR_PARAMETER);
        if (status == PD_OK) status = toy_op(p, "toy_add", "x", "w", "a");
        if (status == PD_OK) status = toy_op(p, "toy_add", "a", "w", "t");
        if (status == PD_OK) status = toy_op(p, "toy_total", "t", NULL, "loss");
        if (status == PD_OK) {
            struct pd_backward_spec spec = {.block = p->blocks.at[0],
                                            .n_targets = 1,
                                            .targets = &loss,
                                            .loss = 1,
                                            .n_wanted = 1,
                                            .wanted = &w};
            status = pd_pass_backward(&spec, &grad);
        }
        if (status == PD_OK) status = pd_program_clone(p, 0, &copy);
        pd_alloc_fail_at(0);
        pd_program_unref(copy);
        pd_program_unref(p);
        if (status == PD_OK) break;
        assert_int_equal(status, PD_NO_MEMORY);
        assert_true(n < 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_inferred),
        cmocka_unit_test(errors_name_op_slot_and_variable),
        cmocka_unit_test(attributes_convert_where_nothing_is_lost),
        cmocka_unit_test(ids_are_stable_and_gone_when_removed),
        cmocka_unit_test(many_names_change_at_once),
        cmocka_unit_test(positions_are_right_after_any_change),
        cmocka_unit_test(many_ops_go_in_at_once),
        cmocka_unit_test(many_parts_go_at_once),
        cmocka_unit_test(a_name_of_an_inner_block_stays),
        cmocka_unit_test(gradients_of_a_shared_variable_add_up),
        cmocka_unit_test(copies_keep_ids_and_drop_training),
        cmocka_unit_test(files_hold_the_whole_program),
        cmocka_unit_test(pruning_keeps_what_a_target_needs),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
