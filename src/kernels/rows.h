/* Rows of a matrix picked by number: copied out, added up, put in order.
 *
 * Widths are in elements. Row numbers are checked by the caller unless a function says that it checks them.
 */
#ifndef PD_KERNELS_ROWS_H
#define PD_KERNELS_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* Position of the first id outside [0, height); -1 when all are inside. Ids equal to `skip` pass when `skip`
 * >= 0. */
int64_t pd_rows_bad_i64(const int64_t *ids, int64_t n, int64_t height, int64_t skip);
int64_t pd_rows_bad_i32(const int32_t *ids, int64_t n, int64_t height, int64_t skip);

/* out[i] = table[ids[i]], rows of `bytes` bytes. A row whose id is `skip` (>= 0) becomes zero. */
void pd_rows_copy(void *out, const void *table, size_t bytes, const int64_t *ids, int64_t n, int64_t skip);

/* table[ids[i]] += scale * rows[i], in the order of i, so that the result does not depend on threads. Ids
 * equal to `skip` (>= 0) are passed over. */
void pd_rows_add_f32(float *table, int64_t width, const int64_t *ids, int64_t n, const float *rows,
                     float scale, int64_t skip);
void pd_rows_add_f64(double *table, int64_t width, const int64_t *ids, int64_t n, const double *rows,
                     double scale, int64_t skip);

/* Which rows come together: row[k] for k < n are the different ids, ascending; the positions in ids that name
 * it are at[start[k]] .. at[start[k + 1] - 1], ascending. */
struct pd_rows_groups {
    int64_t n;
    int64_t *row;
    int32_t *start, *at;
};

/* Bytes of memory that pd_rows_group needs for n ids. */
size_t pd_rows_group_bytes(int64_t n);
/* Groups n (< 2^31) ids that are not negative. The result lies in `memory`, which must outlive it. */
void pd_rows_group(const int64_t *ids, int64_t n, void *memory, struct pd_rows_groups *out);
/* Strictly ascending already: every id is its own group. */
int pd_rows_ascending(const int64_t *ids, int64_t n);

/* out[k] = the sum of the rows of group k, in the order of their positions; rows[i] is where the row of
 * position i lies, apart from `out`. */
void pd_rows_sum_f32(float *out, int64_t width, const struct pd_rows_groups *g, const void *const *rows);
void pd_rows_sum_f64(double *out, int64_t width, const struct pd_rows_groups *g, const void *const *rows);
void pd_rows_sum_i32(int32_t *out, int64_t width, const struct pd_rows_groups *g, const void *const *rows);
void pd_rows_sum_i64(int64_t *out, int64_t width, const struct pd_rows_groups *g, const void *const *rows);

#endif
