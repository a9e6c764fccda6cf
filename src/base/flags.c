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

enum kind { BOOL, INT, NATURAL, DOUBLE, TEXT };

static const struct {
    const char *name;
    enum kind kind;
    int least, most; /* of an INT */
    const char *value, *help;
} table[] = {
#define KIND_BOOL BOOL, 0, 1
#define KIND_INT(least, most) INT, least, most
#define KIND_NATURAL NATURAL, 0, 0
#define KIND_DOUBLE DOUBLE, 0, 0
#define KIND_TEXT TEXT, 0, 0
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
    int i;
    int is_refused; /* the environment's value */
    struct text *text;
} now[PD_FLAG_COUNT];

struct value {
    int i; /* of BOOL and INT, and the level of messages */
    const char *text;
    char number[24];
};

/* On and off are written in the ways that upstream's flags take; -1: in none of them. */
static int parse_switch(const char *text)
{
    static const char *const words[][5] = {{"0", "f", "false", "n", "no"}, {"1", "t", "true", "y", "yes"}};
    for (int on = 0; on < 2; on++)
        for (int i = 0; i < 5; i++)
            if (strcasecmp(text, words[on][i]) == 0) return on;
    return -1;
}

/* 1 when the text fits the flag. Whole numbers too are read as upstream does, 0x begins a hexadecimal one;
 * they are kept as one would write them. `text` must stay while `out` is used. */
static int parse(int flag, const char *text, struct value *out)
{
    char *end;
    int base = strncasecmp(text, "0x", 2) == 0 ? 16 : 10;
    long long number;
    unsigned long long natural;
    *out = (struct value){.text = text};
    errno = 0;
    switch (table[flag].kind) {
    case TEXT:
        out->i = flag == PD_FLAG_log_level ? pd_log_find_level(text) : 0;
        return out->i >= 0;
    case DOUBLE:
        (void)strtod(text, &end);
        return end != text && !*end;
    case BOOL:
        out->i = parse_switch(text);
        out->text = out->i ? "1" : "0";
        return out->i >= 0;
    case NATURAL:
        natural = strtoull(text, &end, base);
        snprintf(out->number, sizeof out->number, "%llu", natural);
        out->text = out->number;
        return end != text && !*end && errno == 0 && !strchr(text, '-');
    default:
        number = strtoll(text, &end, base);
        if (end == text || *end || number < table[flag].least || number > table[flag].most) return 0;
        out->i = (int)number;
        snprintf(out->number, sizeof out->number, "%d", out->i);
        out->text = out->number;
        return 1;
    }
}

static pd_status refuse(int flag, const char *text)
{
    static const char *const wanted[] = {[BOOL] = "0 or 1",
                                         [NATURAL] = "a whole number from 0 to 18446744073709551615",
                                         [DOUBLE] = "a number",
                                         [TEXT] = "one of its words"};
    char range[64];
    snprintf(range, sizeof range, "a whole number from %d to %d", table[flag].least, table[flag].most);
    return pd_fail(PD_INVALID, "FLAGS_%s cannot be '%s': give %s (%s)", table[flag].name, text,
                   table[flag].kind == INT ? range : wanted[table[flag].kind], table[flag].help);
}

static pd_status put(int flag, const struct value *value)
{
    const char *text = value->text;
    if (!now[flag].text || strcmp(now[flag].text->at, text) != 0) {
        size_t n = strlen(text) + 1;
        struct text *t = malloc(sizeof *t + n);
        if (!t) return pd_no_memory();
        memcpy(t->at, text, n);
        t->older = now[flag].text;
        __atomic_store_n(&now[flag].text, t, __ATOMIC_RELEASE);
    }
    now[flag].i = value->i;
    if (flag == PD_FLAG_paddle_num_threads && value->i > 0) pd_threads_set_default(value->i);
    if (flag == PD_FLAG_log_level) pd_log_set_limit((enum pd_log_level)value->i);
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
    struct value value;
    for (int f = 0; f < PD_FLAG_COUNT; f++) {
        const char *text = environment(f, name);
        now[f].is_refused = text && !parse(f, text, &value);
        if (!text || now[f].is_refused) parse(f, table[f].value, &value);
        (void)put(f, &value);
    }
    pd_flag_check_environment(); /* only now is it known which messages are wanted */
}

static void start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
}

int pd_flag_int(enum pd_flag flag)
{
    return start(), now[flag].i;
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

pd_status pd_flag_verify(void)
{
    char name[96];
    start();
    for (int f = 0; f < PD_FLAG_COUNT; f++) {
        const char *text = now[f].is_refused ? environment(f, name) : NULL;
        if (text) return refuse(f, text);
    }
    return PD_OK;
}

pd_status pd_flag_assign(const char *name, const char *text)
{
    struct value value;
    int flag = find(name);
    if (flag < 0) return no_flag(name);
    if (!parse(flag, text, &value)) return refuse(flag, text);
    PD_TRY(put(flag, &value));
    now[flag].is_refused = 0;
    return PD_OK;
}

pd_status pd_flag_read(const char *name, const char **value)
{
    int flag = find(name);
    if (flag < 0) return no_flag(name);
    *value = text_of(flag);
    return PD_OK;
}
