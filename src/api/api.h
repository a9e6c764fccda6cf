/* Shared by the files of the public API. */
#ifndef PD_API_API_H
#define PD_API_API_H

#include <paddle/paddle.h>

#include "api/op_list.h"
#include "base/buf.h"
#include "program/program.h"

/* Hands a buffer's memory to the caller of the API; on failure the buffer is freed. */
pd_status pd_api_bytes(struct pd_buf *buf, pd_bytes *out);
pd_status pd_api_var(const pd_program *program, int64_t id, struct pd_var **out);
pd_status pd_api_op(const pd_program *program, int64_t id, struct pd_opdesc **out);
pd_status pd_api_block(const pd_program *program, int index, struct pd_block **out);

#endif
