/* The plain convolution passes for one element type; included by conv.c with T and F(name) defined. */

/* Patches of channels [begin, end) into rows of the matrix. */
static void F(gather)(void *arg, int64_t begin, int64_t end)
{
    struct patches *p = arg;
    for (int64_t c = begin; c < end; c++) {
        const T *image = (const T *)p->image + c * p->channel_step;
        T *row = (T *)p->columns + c * p->rows_per_channel * p->outputs;
        for (int64_t kd = 0; kd < p->kernel[0]; kd++)
            for (int64_t kh = 0; kh < p->kernel[1]; kh++)
                for (int64_t kw = 0; kw < p->kernel[2]; kw++) {
                    int64_t shift = kw * p->dilation[2] - p->before[2], from, to;
                    inside(p, shift, &from, &to);
                    for (int64_t od = 0; od < p->out[0]; od++) {
                        int64_t id = od * p->stride[0] + kd * p->dilation[0] - p->before[0];
                        for (int64_t oh = 0; oh < p->out[1]; oh++, row += p->out[2]) {
                            int64_t ih = oh * p->stride[1] + kh * p->dilation[1] - p->before[1];
                            if (id < 0 || id >= p->in[0] || ih < 0 || ih >= p->in[1]) {
                                memset(row, 0, (size_t)p->out[2] * sizeof(T));
                                continue;
                            }
                            const T *line = image + (id * p->in[1] + ih) * p->in[2] * p->point_step;
                            for (int64_t ow = 0; ow < from; ow++)
                                row[ow] = 0;
                            for (int64_t ow = from; ow < to; ow++)
                                row[ow] = line[(ow * p->stride[2] + shift) * p->point_step];
                            for (int64_t ow = to; ow < p->out[2]; ow++)
                                row[ow] = 0;
                        }
                    }
                }
    }
}

/* The other way: rows of the matrix are added up in the image. */
static void F(scatter)(void *arg, int64_t begin, int64_t end)
{
    struct patches *p = arg;
    for (int64_t c = begin; c < end; c++) {
        T *image = (T *)p->image + c * p->channel_step;
        const T *row = (const T *)p->columns + c * p->rows_per_channel * p->outputs;
        for (int64_t kd = 0; kd < p->kernel[0]; kd++)
            for (int64_t kh = 0; kh < p->kernel[1]; kh++)
                for (int64_t kw = 0; kw < p->kernel[2]; kw++) {
                    int64_t shift = kw * p->dilation[2] - p->before[2], from, to;
                    inside(p, shift, &from, &to);
                    for (int64_t od = 0; od < p->out[0]; od++) {
                        int64_t id = od * p->stride[0] + kd * p->dilation[0] - p->before[0];
                        for (int64_t oh = 0; oh < p->out[1]; oh++, row += p->out[2]) {
                            int64_t ih = oh * p->stride[1] + kh * p->dilation[1] - p->before[1];
                            if (id < 0 || id >= p->in[0] || ih < 0 || ih >= p->in[1]) continue;
                            T *line = image + (id * p->in[1] + ih) * p->in[2] * p->point_step;
                            for (int64_t ow = from; ow < to; ow++)
                                line[(ow * p->stride[2] + shift) * p->point_step] += row[ow];
                        }
                    }
                }
    }
}

/* One image and one group. `first`, `second` and `out` as in enum pd_conv_pass, moved to the group's place.
 */
static void F(group)(const struct pd_conv_job *job, struct patches *p, int64_t image, int64_t group,
                     const T *first, const T *second, T *out)
{
    const struct pd_conv *c = &job->conv;
    int64_t in_each = c->in_channels / c->groups, out_each = c->out_channels / c->groups;
    int64_t rows = in_each * p->rows_per_channel, points = p->outputs;
    int64_t x_at = image * c->in_channels * p->in_points + group * in_each * p->channel_step;
    int64_t y_at = image * c->out_channels * points + group * out_each * (c->channels_last ? 1 : points);
    int64_t w_at = group * out_each * rows;
    int64_t y_step = c->channels_last ? c->out_channels : points;
    int64_t grain = 16384 / (p->rows_per_channel * points + 1) + 1;
    struct pd_factor columns = {.at = p->columns, .ld = points}, filter = {.ld = rows},
                     y = {.ld = y_step, .trans = c->channels_last};
    if (job->pass != PD_CONV_DATA) {
        p->image = (T *)first + x_at;
        pd_parallel(in_each, grain, F(gather), p);
    }
    switch (job->pass) {
    case PD_CONV_FORWARD:
        filter.at = second + w_at;
        filter.trans = columns.trans = c->channels_last;
        if (c->channels_last) {
            F(pd_gemm)(&(struct pd_gemm){points, out_each, rows, columns, filter, out + y_at, y_step, 1});
        } else {
            F(pd_gemm)(&(struct pd_gemm){out_each, points, rows, filter, columns, out + y_at, y_step, 1});
        }
        break;
    case PD_CONV_DATA:
        filter.at = second + w_at;
        filter.trans = 1;
        y.at = first + y_at;
        F(pd_gemm)(&(struct pd_gemm){rows, points, out_each, filter, y, p->columns, points, 1});
        p->image = out + x_at;
        pd_parallel(in_each, grain, F(scatter), p);
        break;
    case PD_CONV_FILTER:
        columns.trans = 1;
        y.at = second + y_at;
        F(pd_gemm)(&(struct pd_gemm){out_each, rows, points, y, columns, out + w_at, rows, 1, image > 0});
        break;
    }
}

static void F(run)(const struct pd_conv_job *job, const T *first, const T *second, T *out, void *scratch)
{
    const struct pd_conv *c = &job->conv;
    struct patches p;
    patches_make(&p, c);
    p.columns = scratch;
    if (job->pass == PD_CONV_DATA)
        memset(out, 0, (size_t)(c->batch * c->in_channels * p.in_points) * sizeof(T));
    if (job->pass == PD_CONV_FILTER && c->batch == 0)
        memset(out, 0,
               (size_t)(c->out_channels * (c->in_channels / c->groups) * p.rows_per_channel) * sizeof(T));
    for (int64_t image = 0; image < c->batch; image++)
        for (int64_t group = 0; group < c->groups; group++)
            F(group)(job, &p, image, group, first, second, out);
}
