/* Any bytes as a model file. What is understood can be written, read again, printed, verified, inferred and cloned. */
#include <stdint.h>
#include <stdlib.h>

#include "ops/list.h"
#include "program/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Shapes that some memory could hold; others never get as far as an op. */
static int fits(const struct pd_program *program)
{
    for (int b = 0; b < program->blocks.n; b++)
        for (int i = 0; i < program->blocks.at[b]->vars.n; i++) {
            const struct pd_meta *m = &program->blocks.at[b]->vars.at[i]->meta;
            double product = 1;
            for (int d = 0; d < m->rank; d++)
                product *= m->dim[d] > 1 ? (double)m->dim[d] : m->dim[d] < -1 ? 1e30 : 1;
            if (product > 1e12) return 0;
        }
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct pd_program *program = NULL, *other = NULL;
    struct pd_buf buf = {0}, text = {0};
    if (pd_program_read(&pd_ops, bytes, n, &program) != PD_OK) return 0;
    if (pd_program_write(program, &buf) != PD_OK) abort();
    if (pd_program_read(&pd_ops, buf.at, buf.n, &other) != PD_OK) abort();
    pd_program_unref(other);
    if (pd_program_print(program, &text) != PD_OK) abort();
    /* A Program that verifies can be inferred op by op; its shapes may make no sense, which is an error and no crash. */
    if (pd_program_verify(program) == PD_OK && fits(program))
        for (int b = 0; b < program->blocks.n; b++)
            for (int i = 0; i < program->blocks.at[b]->ops.n; i++)
                if (program->blocks.at[b]->ops.at[i]->def)
                    pd_opdesc_infer(program->blocks.at[b]->ops.at[i], program->blocks.at[b]);
    if (pd_program_clone(program, 1, &other) == PD_OK) pd_program_unref(other);
    pd_program_unref(program);
    pd_buf_free(&buf);
    pd_buf_free(&text);
    return 0;
}
