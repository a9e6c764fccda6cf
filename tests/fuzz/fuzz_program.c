/* Any bytes as a model file. What is understood can be written, read again, printed, verified, inferred and
 * cloned. */
#include <stdint.h>
#include <stdlib.h>

#include "api/op_list.h"
#include "program/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct pd_program *program = NULL, *other = NULL;
    struct pd_buf buf = {0}, text = {0};
    if (pd_program_read(&pd_ops, bytes, n, &program) != PD_OK) return 0;
    if (pd_program_write(program, &buf) != PD_OK) abort();
    if (pd_program_read(&pd_ops, buf.at, buf.n, &other) != PD_OK) abort();
    pd_program_unref(other);
    if (pd_program_print(program, &text) != PD_OK) abort();
    /* A Program that verifies can be inferred op by op; its shapes may make no sense, which is an error and
     * no crash. */
    if (pd_program_verify(program) == PD_OK)
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
