/* See broadcast.h. */
#include "kernels/broadcast.h"

#include "base/parallel.h"

void pd_bcast_make(struct pd_bcast *b, int rank, const int64_t *x_dim, const int64_t *y_dim)
{
    int x_varies[PD_BCAST_RANK], y_varies[PD_BCAST_RANK];
    b->rank = 0;
    b->count = 1;
    for (int i = 0; i < rank; i++) {
        int64_t size = x_dim[i] == 1 ? y_dim[i] : x_dim[i];
        b->count *= size;
        if (size == 1) continue;
        int xv = x_dim[i] != 1, yv = y_dim[i] != 1;
        if (b->rank && x_varies[b->rank - 1] == xv && y_varies[b->rank - 1] == yv) {
            b->dim[b->rank - 1] *= size;
            continue;
        }
        x_varies[b->rank] = xv;
        y_varies[b->rank] = yv;
        b->dim[b->rank++] = size;
    }
    if (!b->rank) {
        b->rank = 1;
        b->dim[0] = b->count;
        x_varies[0] = y_varies[0] = 1;
    }
    int64_t xs = 1, ys = 1;
    for (int i = b->rank - 1; i >= 0; i--) {
        b->x_step[i] = x_varies[i] ? xs : 0;
        b->y_step[i] = y_varies[i] ? ys : 0;
        if (x_varies[i]) xs *= b->dim[i];
        if (y_varies[i]) ys *= b->dim[i];
    }
}

struct walk {
    const struct pd_bcast *b;
    void (*body)(void *, const struct pd_tile *);
    void *arg;
};

static void flat_part(void *arg, int64_t begin, int64_t end)
{
    const struct walk *w = arg;
    const struct pd_bcast *b = w->b;
    struct pd_tile t = {.at = begin,
                        .x = begin * b->x_step[0],
                        .y = begin * b->y_step[0],
                        .rows = 1,
                        .n = end - begin,
                        .x_step = b->x_step[0],
                        .y_step = b->y_step[0]};
    w->body(w->arg, &t);
}

/* Rows are counted over all dimensions but the last. */
static void rows_part(void *arg, int64_t begin, int64_t end)
{
    const struct walk *w = arg;
    const struct pd_bcast *b = w->b;
    int last = b->rank - 1, mid = b->rank - 2;
    struct pd_tile t = {.n = b->dim[last],
                        .x_row = b->x_step[mid],
                        .y_row = b->y_step[mid],
                        .x_step = b->x_step[last],
                        .y_step = b->y_step[last]};
    for (int64_t row = begin; row < end; row += t.rows) {
        int64_t outer = row / b->dim[mid], within = row % b->dim[mid];
        t.rows = b->dim[mid] - within;
        if (t.rows > end - row) t.rows = end - row;
        t.at = row * t.n;
        t.x = within * t.x_row;
        t.y = within * t.y_row;
        for (int i = mid - 1; i >= 0; i--) {
            int64_t index = outer % b->dim[i];
            outer /= b->dim[i];
            t.x += index * b->x_step[i];
            t.y += index * b->y_step[i];
        }
        w->body(w->arg, &t);
    }
}

void pd_bcast_run(const struct pd_bcast *b, int64_t grain, void (*body)(void *, const struct pd_tile *),
                  void *arg)
{
    struct walk w = {b, body, arg};
    if (b->count <= 0) return;
    if (b->rank == 1) {
        pd_parallel(b->count, grain, flat_part, &w);
        return;
    }
    int64_t n = b->dim[b->rank - 1];
    pd_parallel(b->count / n, grain / n + 1, rows_part, &w);
}
