/* Pooling for one element type; included by pool.c with T, F(name) and LOWEST defined. */

PD_HAS_NAN(F(has_nan), T)

/* One line of outputs from one line of inputs, for one tap of the kernel. */
PD_CLONES static void F(tap)(int average, int64_t from, int64_t to, int64_t stride, const T *restrict x,
                             T *restrict y)
{
    if (average && stride == 1)
        for (int64_t o = from; o < to; o++)
            y[o] += x[o];
    else if (average)
        for (int64_t o = from; o < to; o++)
            y[o] += x[o * stride];
    else if (stride == 1)
        for (int64_t o = from; o < to; o++)
            y[o] = x[o] > y[o] ? x[o] : y[o];
    else if (stride == 2)
        for (int64_t o = from; o < to; o++)
            y[o] = x[o * 2] > y[o] ? x[o * 2] : y[o];
    else
        for (int64_t o = from; o < to; o++)
            y[o] = x[o * stride] > y[o] ? x[o * stride] : y[o];
}

/* Plain windows without NaN, channels first: taps outside, outputs inside, so that the inner loop is long. */
static void F(plane_taps)(const struct pd_pool *p, const T *x, T *y)
{
    struct range d, h;
    for (int64_t od = 0; od < p->out[0]; od++) {
        window(p, 0, od, &d);
        for (int64_t oh = 0; oh < p->out[1]; oh++, y += p->out[2]) {
            window(p, 1, oh, &h);
            for (int64_t o = 0; o < p->out[2]; o++)
                y[o] = p->average ? 0 : LOWEST;
            for (int64_t id = d.from; id < d.to; id++)
                for (int64_t ih = h.from; ih < h.to; ih++)
                    for (int64_t k = 0; k < p->kernel[2]; k++) {
                        int64_t shift = k - p->before[2], s = p->stride[2];
                        int64_t low = shift >= 0 ? 0 : (-shift + s - 1) / s;
                        int64_t high = p->in[2] - shift <= 0 ? 0 : (p->in[2] - shift + s - 1) / s;
                        if (high > p->out[2]) high = p->out[2];
                        F(tap)(p->average, low, high, s, x + (id * p->in[1] + ih) * p->in[2] + shift, y);
                    }
            if (!p->average) continue;
            for (int64_t o = 0; o < p->out[2]; o++) {
                struct range w;
                window(p, 2, o, &w);
                int64_t count = count_of(p, &d, &h, &w);
                y[o] = count ? y[o] / (T)count : 0;
            }
        }
    }
}

/* Any windows, one output at a time, with the place of the largest value. */
static void F(plane_windows)(const struct pd_pool *p, const T *x, T *y, int32_t *index)
{
    struct range d, h, w;
    int64_t at = 0;
    for (int64_t od = 0; od < p->out[0]; od++) {
        window(p, 0, od, &d);
        for (int64_t oh = 0; oh < p->out[1]; oh++) {
            window(p, 1, oh, &h);
            for (int64_t ow = 0; ow < p->out[2]; ow++, at++) {
                window(p, 2, ow, &w);
                T best = p->average ? 0 : LOWEST;
                int64_t place = -1;
                for (int64_t id = d.from; id < d.to; id++)
                    for (int64_t ih = h.from; ih < h.to; ih++)
                        for (int64_t iw = w.from; iw < w.to; iw++) {
                            int64_t i = (id * p->in[1] + ih) * p->in[2] + iw;
                            if (p->average) {
                                best += x[i];
                            } else if (PD_ABOVE(x[i], best)) {
                                best = x[i];
                                place = i;
                            }
                        }
                int64_t count = p->average ? count_of(p, &d, &h, &w) : 1;
                y[at] = count ? best / (T)count : 0;
                if (index) index[at] = (int32_t)place;
            }
        }
    }
}

static void F(forward_planes)(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct pd_pool *p = j->pool;
    for (int64_t i = begin; i < end; i++) {
        const T *x = (const T *)j->x + i * j->in_points;
        T *y = (T *)j->to + i * j->out_points;
        if (p->adaptive || j->index || (!p->average && F(has_nan)(x, j->in_points)))
            F(plane_windows)(p, x, y, j->index ? j->index + i * j->out_points : NULL);
        else
            F(plane_taps)(p, x, y);
    }
}

static void F(backward_planes)(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct pd_pool *p = j->pool;
    for (int64_t i = begin; i < end; i++) {
        const T *dy = (const T *)j->dy + i * j->out_points;
        const T *x = j->x ? (const T *)j->x + i * j->in_points : NULL,
                *y = j->y ? (const T *)j->y + i * j->out_points : NULL;
        T *dx = (T *)j->to + i * j->in_points;
        struct range d, h, w;
        int64_t at = 0;
        for (int64_t od = 0; od < p->out[0]; od++) {
            window(p, 0, od, &d);
            for (int64_t oh = 0; oh < p->out[1]; oh++) {
                window(p, 1, oh, &h);
                for (int64_t ow = 0; ow < p->out[2]; ow++, at++) {
                    window(p, 2, ow, &w);
                    if (p->average) {
                        int64_t count = count_of(p, &d, &h, &w);
                        T each = count ? dy[at] / (T)count : 0;
                        for (int64_t id = d.from; id < d.to; id++)
                            for (int64_t ih = h.from; ih < h.to; ih++)
                                for (int64_t iw = w.from; iw < w.to; iw++)
                                    dx[(id * p->in[1] + ih) * p->in[2] + iw] += each;
                        continue;
                    }
                    /* From the back, so that the first match wins without a jump. */
                    int64_t place = -1;
                    for (int64_t id = d.to - 1; id >= d.from; id--)
                        for (int64_t ih = h.to - 1; ih >= h.from; ih--)
                            for (int64_t iw = w.to - 1; iw >= w.from; iw--) {
                                int64_t k = (id * p->in[1] + ih) * p->in[2] + iw;
                                place = x[k] == y[at] ? k : place;
                            }
                    if (place >= 0) dx[place] += dy[at];
                }
            }
        }
    }
}

static void F(backward_indexed)(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        const T *dy = (const T *)j->dy + i * j->out_points;
        const int32_t *index = j->index + i * j->out_points;
        T *dx = (T *)j->to + i * j->in_points;
        for (int64_t at = 0; at < j->out_points; at++)
            if (index[at] >= 0 && index[at] < j->in_points) dx[index[at]] += dy[at];
    }
}

/* ---- channels last: a window at a time, all channels side by side ---- */

PD_CLONES static void F(merge)(int average, int64_t n, const T *restrict x, T *restrict y)
{
    if (average)
        for (int64_t c = 0; c < n; c++)
            y[c] += x[c];
    else
        for (int64_t c = 0; c < n; c++)
            y[c] = PD_LARGER(x[c], y[c]);
}

static void F(forward_points)(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct pd_pool *p = j->pool;
    int64_t n = p->channels;
    for (int64_t i = begin; i < end; i++) {
        struct range d, h, w;
        int64_t image = i / j->out_points, at = i % j->out_points;
        window(p, 2, at % p->out[2], &w);
        window(p, 1, at / p->out[2] % p->out[1], &h);
        window(p, 0, at / p->out[2] / p->out[1], &d);
        const T *x = (const T *)j->x + image * j->in_points * n;
        T *y = (T *)j->to + i * n;
        for (int64_t c = 0; c < n; c++)
            y[c] = p->average ? 0 : LOWEST;
        for (int64_t id = d.from; id < d.to; id++)
            for (int64_t ih = h.from; ih < h.to; ih++)
                for (int64_t iw = w.from; iw < w.to; iw++)
                    F(merge)(p->average, n, x + ((id * p->in[1] + ih) * p->in[2] + iw) * n, y);
        if (!p->average) continue;
        int64_t count = count_of(p, &d, &h, &w);
        for (int64_t c = 0; c < n; c++)
            y[c] = count ? y[c] / (T)count : 0;
    }
}

static void F(backward_images)(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct pd_pool *p = j->pool;
    int64_t n = p->channels;
    for (int64_t i = begin * j->out_points; i < end * j->out_points; i++) {
        struct range d, h, w;
        int64_t image = i / j->out_points, at = i % j->out_points;
        window(p, 2, at % p->out[2], &w);
        window(p, 1, at / p->out[2] % p->out[1], &h);
        window(p, 0, at / p->out[2] / p->out[1], &d);
        const T *dy = (const T *)j->dy + i * n;
        T *dx = (T *)j->to + image * j->in_points * n;
        int64_t count = count_of(p, &d, &h, &w);
        for (int64_t c = 0; c < n; c++) {
            T each = p->average && count ? dy[c] / (T)count : 0;
            int64_t place = -1;
            for (int64_t id = d.to - 1; id >= d.from; id--)
                for (int64_t ih = h.to - 1; ih >= h.from; ih--)
                    for (int64_t iw = w.to - 1; iw >= w.from; iw--) {
                        int64_t k = ((id * p->in[1] + ih) * p->in[2] + iw) * n + c;
                        if (p->average)
                            dx[k] += each;
                        else if (((const T *)j->x)[image * j->in_points * n + k] ==
                                 ((const T *)j->y)[i * n + c])
                            place = k;
                    }
            if (place >= 0) dx[place] += dy[c];
        }
    }
}
