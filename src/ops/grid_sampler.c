/* grid_sampler: an image read at the places of a grid, which run from -1 to 1 along each axis. What lies
 * outside is 0. */
#include <math.h>
#include <string.h>

#include "ops/check.h"
#include "ops/out.h"

enum { X, GRID, D_OUT };
enum { DX, D_GRID };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *grid = pd_infer_in(c, GRID);
    struct pd_meta *out = pd_infer_out(c, 0);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", grid, "Grid"));
    PD_TRY(pd_check_rank(x, "X", 4, 4));
    PD_TRY(pd_check_rank(grid, "Grid", 4, 4));
    if ((grid->dim[3] >= 0 && grid->dim[3] != 2) ||
        (grid->dim[0] >= 0 && x->dim[0] >= 0 && grid->dim[0] != x->dim[0]))
        return pd_fail(PD_SHAPE, "Grid has shape %s, but for X %s it must be [%lld, height, width, 2].",
                       pd_meta_dims_text(grid), pd_meta_dims_text(x), (long long)x->dim[0]);
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    /* A grid of unknown size has that of the image. */
    int64_t h = grid->dim[1] < 0 ? x->dim[2] : grid->dim[1], w = grid->dim[2] < 0 ? x->dim[3] : grid->dim[2];
    PD_TRY(pd_meta_set_dims(out, 4, (int64_t[]){x->dim[0], x->dim[1], h, w}));
    pd_meta_share_lod(out, x);
    return PD_OK;
}

/* The four image points around a place: north-west, north-east, south-west, south-east; -1 outside. */
struct corners {
    int64_t at[4];
    double west, north; /* distance from the north-west point */
};

static struct corners corners_of(double gx, double gy, int64_t h, int64_t w)
{
    double x = (gx + 1) * 0.5 * (double)(w - 1), y = (gy + 1) * 0.5 * (double)(h - 1);
    double x0 = floor(x), y0 = floor(y);
    struct corners c = {.west = x - x0, .north = y - y0};
    for (int i = 0; i < 4; i++) {
        double cx = x0 + (i & 1), cy = y0 + (i >> 1);
        int inside = cx >= 0 && cx <= (double)(w - 1) && cy >= 0 && cy <= (double)(h - 1);
        c.at[i] = inside ? (int64_t)cy * w + (int64_t)cx : -1;
    }
    return c;
}

static double weight_of(const struct corners *c, int i)
{
    return (i & 1 ? c->west : 1 - c->west) * (i >> 1 ? c->north : 1 - c->north);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *grid_in = pd_run_in(r, GRID);
    const int64_t *xd = x_in->meta.dim, *gd = grid_in->meta.dim;
    int64_t points = gd[1] * gd[2], pixels = xd[2] * xd[3];
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *grid = grid_in->data;
        T *out = pd_run_out(r, 0)->data;
        for (int64_t n = 0; n < xd[0]; n++)
            for (int64_t p = 0; p < points; p++) {
                const T *g = grid + (n * points + p) * 2;
                struct corners c = corners_of((double)g[0], (double)g[1], xd[2], xd[3]);
                for (int64_t k = 0; k < xd[1]; k++) {
                    const T *x = (const T *)x_in->data + (n * xd[1] + k) * pixels;
                    double sum = 0;
                    for (int i = 0; i < 4; i++)
                        if (c.at[i] >= 0) sum += (double)x[c.at[i]] * weight_of(&c, i);
                    out[(n * xd[1] + k) * points + p] = (T)sum;
                }
            }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *grid_in = pd_run_in(r, GRID),
                           *d_in = pd_run_in(r, D_OUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *d_grid = pd_run_out(r, D_GRID);
    const int64_t *xd = x_in->meta.dim, *gd = grid_in->meta.dim;
    int64_t points = gd[1] * gd[2], pixels = xd[2] * xd[3];
    if (dx) memset(dx->data, 0, pd_tensor_bytes(dx));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *grid = grid_in->data;
        for (int64_t n = 0; n < xd[0]; n++)
            for (int64_t p = 0; p < points; p++) {
                const T *g = grid + (n * points + p) * 2;
                struct corners c = corners_of((double)g[0], (double)g[1], xd[2], xd[3]);
                double to_x = 0;
                double to_y = 0;
                for (int64_t k = 0; k < xd[1]; k++) {
                    int64_t plane = (n * xd[1] + k) * pixels;
                    double d = (double)((const T *)d_in->data)[(n * xd[1] + k) * points + p];
                    double v[4];
                    for (int i = 0; i < 4; i++) {
                        v[i] = c.at[i] < 0 ? 0 : (double)((const T *)x_in->data)[plane + c.at[i]];
                        if (dx && c.at[i] >= 0) ((T *)dx->data)[plane + c.at[i]] += (T)(d * weight_of(&c, i));
                    }
                    to_x += d * ((v[1] - v[0]) * (1 - c.north) + (v[3] - v[2]) * c.north);
                    to_y += d * ((v[2] - v[0]) * (1 - c.west) + (v[3] - v[1]) * c.west);
                }
                if (!d_grid) continue;
                T *to = (T *)d_grid->data + (n * points + p) * 2;
                to[0] = (T)(to_x * (double)(xd[3] - 1) / 2);
                to[1] = (T)(to_y * (double)(xd[2] - 1) / 2);
            }
    })
    return PD_OK;
}

const struct pd_op pd_op_grid_sampler = {
    .type = "grid_sampler",
    .doc = "An image read at the places of a grid, with bilinear interpolation.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Grid", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Output", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "grid_sampler_grad",
    .grad_in = "X Grid Output@",
    .grad_out = "X@ Grid@",
};

const struct pd_op pd_op_grid_sampler_grad = {
    .type = "grid_sampler_grad",
    .doc = "Gradient of grid_sampler.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Grid", 0}, {"Output@GRAD", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Grid@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = pd_out_infer_like_both,
    .run = grad_run,
};
