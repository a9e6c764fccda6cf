/* The batches of a data set one by one, for who feeds them, in the public API. */
#include "api/api.h"
#include "base/error.h"
#include "data/pass.h"

struct pd_batches {
    struct pd_pass *pass;
    int n; /* values of a batch */
};

pd_status pd_batches_begin(pd_dataset *dataset, pd_batches **out)
{
    pd_batches *b = pd_calloc(1, sizeof *b);
    if (!b) return pd_no_memory();
    pd_status status = pd_pass_begin(dataset, &(struct pd_pass_options){.workers = 1}, &b->pass);
    if (status != PD_OK) {
        pd_free(b);
        return status;
    }
    b->n = dataset->schema.n_used;
    *out = b;
    return PD_OK;
}

pd_status pd_batches_next(pd_batches *batches, int *n, pd_value *const **values, int64_t *samples)
{
    const struct pd_batch *batch;
    PD_TRY(pd_pass_next(batches->pass, 0, &batch));
    if (!batch) PD_TRY(pd_pass_check(batches->pass));
    *n = batches->n;
    *values = batch ? batch->value : NULL;
    *samples = batch ? batch->samples : 0;
    return PD_OK;
}

void pd_batches_stop(pd_batches *batches)
{
    pd_pass_stop(batches->pass);
}

void pd_batches_end(pd_batches *batches)
{
    if (batches) pd_pass_free(batches->pass);
    pd_free(batches);
}
