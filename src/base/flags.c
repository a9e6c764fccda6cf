/* The flag table and its values; see flags.h. */
#include "base/flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
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

static struct {
    int64_t i;
    double d;
    char text[128];
} now[PD_FLAG_COUNT];
static int ready;

/* 1 when the text fits the kind. */
static int parse(enum kind kind, const char *text, int64_t *i, double *d)
{
    char *end;
    errno = 0;
    switch (kind) {
    case KIND_TEXT:
        *i = 0, *d = 0;
        return strlen(text) < sizeof now[0].text;
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

static void put(int flag, const char *text, int64_t i, double d)
{
    now[flag].i = i;
    now[flag].d = d;
    snprintf(now[flag].text, sizeof now[flag].text, "%s", text);
    if (flag == PD_FLAG_paddle_num_threads && i > 0) pd_threads_set_default((int)i);
}

static void start(void)
{
    if (ready) return;
    ready = 1;
    for (int f = 0; f < PD_FLAG_COUNT; f++) {
        int64_t i;
        double d;
        char name[96];
        snprintf(name, sizeof name, "FLAGS_%s", table[f].name);
        const char *env = getenv(name);
        if (env && parse(table[f].kind, env, &i, &d)) {
            put(f, env, i, d);
        } else {
            if (env) fprintf(stderr, "cpaddle: %s=%s is not a value for this flag; %s is used\n", name, env, table[f].value);
            parse(table[f].kind, table[f].value, &i, &d);
            put(f, table[f].value, i, d);
        }
    }
}

int64_t pd_flag_int(enum pd_flag flag) { return start(), now[flag].i; }
double pd_flag_double(enum pd_flag flag) { return start(), now[flag].d; }
const char *pd_flag_text(enum pd_flag flag) { return start(), now[flag].text; }
const char *pd_flag_name_of(enum pd_flag flag) { return (unsigned)flag < PD_FLAG_COUNT ? table[flag].name : NULL; }
const char *pd_flag_help(enum pd_flag flag) { return table[flag].help; }

static int find(const char *name)
{
    start();
    if (strncmp(name, "FLAGS_", 6) == 0) name += 6;
    for (int f = 0; f < PD_FLAG_COUNT; f++)
        if (strcmp(table[f].name, name) == 0) return f;
    return -1;
}

pd_status pd_flag_assign(const char *name, const char *value)
{
    int64_t i;
    double d;
    int flag = find(name);
    if (flag < 0) return pd_fail(PD_NOT_FOUND, "there is no flag '%s'", name);
    if (!parse(table[flag].kind, value, &i, &d))
        return pd_fail(PD_INVALID, "flag '%s' cannot take the value '%s': %s", table[flag].name, value, table[flag].help);
    put(flag, value, i, d);
    return PD_OK;
}

pd_status pd_flag_read(const char *name, const char **value)
{
    int flag = find(name);
    if (flag < 0) return pd_fail(PD_NOT_FOUND, "there is no flag '%s'", name);
    *value = now[flag].text;
    return PD_OK;
}
