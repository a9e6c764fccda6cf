/* The flag table and its values; see flags.h. */
#include "base/flags.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"

enum kind { KIND_BOOL, KIND_INT, KIND_LONG, KIND_DOUBLE, KIND_TEXT };

static const struct {
    const char *name;
    enum kind kind;
    const char *value, *help;
} table[] = {
#define ROW(name, kind, value, help) {#name, KIND_##kind, value, help},
    PD_FLAG_MAP(ROW)
#undef ROW
};

/* Texts are of any length. One that was replaced stays: somebody may still read it. */
struct text {
    struct text *older;
    char at[];
};

static struct {
    int64_t i;
    double d;
    struct text *text;
} now[PD_FLAG_COUNT];

/* 1 when the text fits the flag. */
static int parse(int flag, const char *text, int64_t *i, double *d)
{
    char *end;
    errno = 0;
    switch (table[flag].kind) {
    case KIND_TEXT:
        *i = flag == PD_FLAG_log_level ? pd_log_find_level(text) : 0;
        *d = (double)*i;
        return *i >= 0;
    case KIND_DOUBLE:
        *d = strtod(text, &end);
        *i = (int64_t)*d;
        return end != text && !*end;
    case KIND_BOOL:
        if (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0) {
            *d = (double)(*i = strcasecmp(text, "true") == 0);
            return 1;
        }
        *i = strtoll(text, &end, 10);
        *d = (double)*i;
        return end != text && !*end && (*i == 0 || *i == 1);
    default:
        *i = strtoll(text, &end, 10);
        *d = (double)*i;
        return end != text && !*end && errno == 0;
    }
}

static pd_status put(int flag, const char *text, int64_t i, double d)
{
    if (!now[flag].text || strcmp(now[flag].text->at, text) != 0) {
        size_t n = strlen(text) + 1;
        struct text *t = malloc(sizeof *t + n);
        if (!t) return pd_no_memory();
        memcpy(t->at, text, n);
        t->older = now[flag].text;
        __atomic_store_n(&now[flag].text, t, __ATOMIC_RELEASE);
    }
    now[flag].i = i;
    now[flag].d = d;
    if (flag == PD_FLAG_paddle_num_threads && i > 0) pd_threads_set_default((int)i);
    if (flag == PD_FLAG_log_level) pd_log_set_limit((enum pd_log_level)i);
    return PD_OK;
}

static const char *text_of(int flag)
{
    const struct text *text = __atomic_load_n(&now[flag].text, __ATOMIC_ACQUIRE);
    return text ? text->at : table[flag].value;
}

/* The value of a flag in the environment, or NULL. Old scripts ask for more messages with GLOG_v. */
static const char *environment(int flag, char name[96])
{
    snprintf(name, 96, "FLAGS_%s", table[flag].name);
    const char *value = getenv(name);
    if (value || flag != PD_FLAG_log_level) return value;
    const char *verbose = getenv("GLOG_v");
    return verbose && atoi(verbose) > 0 ? "debug" : NULL;
}

static void read_environment(void)
{
    char name[96];
    int64_t i;
    double d;
    for (int f = 0; f < PD_FLAG_COUNT; f++) {
        const char *value = environment(f, name);
        if (!value || !parse(f, value, &i, &d)) parse(f, value = table[f].value, &i, &d);
        (void)put(f, value, i, d);
    }
    /* Only now is it known which messages are wanted. */
    for (int f = 0; f < PD_FLAG_COUNT; f++) {
        const char *value = environment(f, name);
        if (value && !parse(f, value, &i, &d))
            pd_log(PD_LOG_WARNING, "%s=%s is not a value for this flag (%s); %s is used", name, value,
                   table[f].help, table[f].value);
    }
    pd_flag_check_environment();
}

static void start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
}

int64_t pd_flag_int(enum pd_flag flag)
{
    return start(), now[flag].i;
}

pd_status pd_flag_positive(enum pd_flag flag, int *out)
{
    int64_t value = pd_flag_int(flag);
    if (value < 1 || value > INT32_MAX)
        return pd_fail(PD_INVALID, "FLAGS_%s is %lld: %s; give a number from 1 to %d", table[flag].name,
                       (long long)value, table[flag].help, INT32_MAX);
    *out = (int)value;
    return PD_OK;
}

const char *pd_flag_text(enum pd_flag flag)
{
    return start(), text_of(flag);
}

const char *pd_flag_name_of(enum pd_flag flag)
{
    return (unsigned)flag < PD_FLAG_COUNT ? table[flag].name : NULL;
}

static int find(const char *name)
{
    start();
    if (strncmp(name, "FLAGS_", 6) == 0) name += 6;
    for (int f = 0; f < PD_FLAG_COUNT; f++)
        if (strcmp(table[f].name, name) == 0) return f;
    return -1;
}

static pd_status no_flag(const char *name)
{
    const char *bare = strncmp(name, "FLAGS_", 6) == 0 ? name + 6 : name;
    const char *nearest = pd_flag_nearest(bare, (int)strlen(bare));
    if (nearest && strcmp(nearest, bare) != 0)
        return pd_fail(PD_NOT_FOUND, "there is no flag '%s'; is '%s' meant?", name, nearest);
    return pd_fail(PD_NOT_FOUND, "there is no flag '%s'", name);
}

pd_status pd_flag_assign(const char *name, const char *value)
{
    int64_t i;
    double d;
    int flag = find(name);
    if (flag < 0) return no_flag(name);
    if (!parse(flag, value, &i, &d))
        return pd_fail(PD_INVALID, "flag '%s' cannot take the value '%s': %s", table[flag].name, value,
                       table[flag].help);
    return put(flag, value, i, d);
}

pd_status pd_flag_read(const char *name, const char **value)
{
    int flag = find(name);
    if (flag < 0) return no_flag(name);
    *value = text_of(flag);
    return PD_OK;
}
