/* See multislot.h. */
#include "data/multislot.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "data/numbers.h"
#include "data/record.h"

struct line {
    const struct pd_schema *schema;
    const char *at, *end; /* end: at its '\n' */
    char *to;             /* where the next number goes: there is room for all that the line can hold */
};

static _Thread_local char reason[240];

static inline int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* A number ends with a space or with its line. */
static inline int is_over(char c)
{
    return is_space(c) || c == '\n';
}

static inline void skip_spaces(struct line *l)
{
    while (is_space(*l->at))
        l->at++;
}

/* The word at `at`, for a message. */
static const char *word(const char *at, char to[32])
{
    int n = 0;
    while (n < 24 && !is_over(at[n])) {
        to[n] = at[n] < 32 ? '?' : at[n];
        n++;
    }
    to[n] = 0;
    return to;
}

/* Nothing but a sign and digits. */
static int is_whole(const char *at)
{
    at += *at == '-' || *at == '+';
    if (is_over(*at)) return 0;
    while (*at >= '0' && *at <= '9')
        at++;
    return is_over(*at);
}

/* Says what was found in the place of what a slot needs. Returns 0. */
static int complain(const struct line *l, const struct pd_slot *slot, const char *what)
{
    char text[32];
    if (*l->at == '\n')
        snprintf(reason, sizeof reason, "it ends where %s of slot '%.60s' should stand", what, slot->name);
    else
        snprintf(reason, sizeof reason, "found '%s' where %s of slot '%.60s' should stand", word(l->at, text),
                 what, slot->name);
    return 0;
}

static int read_count(struct line *l, const struct pd_slot *slot, uint32_t *count)
{
    skip_spaces(l);
    const char *next = pd_number_count(l->at, count);
    if (!next || !is_over(*next)) return complain(l, slot, "the count");
    /* A number takes a space and a digit: a count that the text cannot hold needs no memory to find that out.
     */
    if (*count > (size_t)(l->end - next) / 2) {
        snprintf(reason, sizeof reason,
                 "slot '%.60s' is said to have %u numbers, more than the line can hold", slot->name, *count);
        return 0;
    }
    if (*count == 0) {
        snprintf(reason, sizeof reason,
                 "slot '%.60s' has a count of 0; pad it with a number where there is none", slot->name);
        return 0;
    }
    if (*count % slot->unit) {
        snprintf(reason, sizeof reason, "slot '%.60s' has %u numbers; its shape %s needs a multiple of %lld",
                 slot->name, *count, pd_meta_dims_text(&slot->shape), (long long)slot->unit);
        return 0;
    }
    l->at = next;
    return 1;
}

/* Reads `count` numbers; those that count are *kept. */
static int read_whole(struct line *l, const struct pd_slot *slot, uint32_t count, uint32_t *kept)
{
    int drops = l->schema->drops_zeros && !slot->is_dense;
    char *to = l->to;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value;
        skip_spaces(l);
        const char *next = pd_number_u64(l->at, &value);
        if (!next || !is_over(*next))
            return complain(l, slot,
                            is_whole(l->at) ? "a whole number of at most 64 bits" : "a whole number");
        l->at = next;
        memcpy(to, &value, 8);
        to += 8 * (!drops || value != 0);
    }
    *kept = (uint32_t)((to - l->to) / 8);
    return 1;
}

static int read_floats(struct line *l, const struct pd_slot *slot, uint32_t count, uint32_t *kept)
{
    int drops = l->schema->drops_zeros && !slot->is_dense;
    char *to = l->to;
    for (uint32_t i = 0; i < count; i++) {
        float value;
        skip_spaces(l);
        const char *next = pd_number_float(l->at, &value);
        if (!next || !is_over(*next)) return complain(l, slot, "a number");
        l->at = next;
        memcpy(to, &value, 4);
        to += 4 * (!drops || !(value < 1e-6f && value > -1e-6f));
    }
    *kept = (uint32_t)((to - l->to) / 4);
    return 1;
}

static int skip_numbers(struct line *l, const struct pd_slot *slot, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        skip_spaces(l);
        if (*l->at == '\n') return complain(l, slot, "a number");
        while (!is_over(*l->at))
            l->at++;
    }
    return 1;
}

/* "1 <word>": its bytes, until they go behind the numbers. */
static int read_word(struct line *l, const char *what, const char **text, uint32_t *length)
{
    uint32_t count;
    skip_spaces(l);
    const char *next = pd_number_count(l->at, &count);
    if (next && count == 1 && is_space(*next)) {
        l->at = next;
        skip_spaces(l);
        *text = l->at;
        while (!is_over(*l->at))
            l->at++;
        *length = (uint32_t)(l->at - *text);
        if (*length) return 1;
    }
    snprintf(reason, sizeof reason,
             "it does not begin with '1' and %s, which parse_ins_id or parse_content asks for", what);
    return 0;
}

static void add_word(struct line *l, const char *text, uint32_t length)
{
    memcpy(l->to, &length, 4);
    memcpy(l->to + 4, text, length);
    l->to += 4 + length;
}

/* 1: read, to `record` and what is behind it; 0: `reason` says what is wrong. */
static int read_slots(struct line *l, char *record)
{
    const struct pd_schema *s = l->schema;
    const char *id = NULL, *text = NULL;
    uint32_t id_length = 0, text_length = 0, count, kept;
    if (s->has_id && !read_word(l, "an id", &id, &id_length)) return 0;
    if (s->has_text && !read_word(l, "a text", &text, &text_length)) return 0;
    l->to = record + pd_record_head(s);
    for (int i = 0, column = 0; i < s->n; i++) {
        const struct pd_slot *slot = &s->slot[i];
        if (!read_count(l, slot, &count)) return 0;
        if (!slot->is_used) {
            if (!skip_numbers(l, slot, count)) return 0;
            continue;
        }
        size_t size = pd_slot_bytes(slot);
        if (!(slot->is_float ? read_floats : read_whole)(l, slot, count, &kept)) return 0;
        if (kept == 0) { /* a slot is never empty */
            memset(l->to, 0, size);
            kept = 1;
        }
        l->to += kept * size;
        memcpy(record + 4 * (size_t)column++, &kept, 4);
    }
    if (s->has_id) add_word(l, id, id_length);
    if (s->has_text) add_word(l, text, text_length);
    return 1;
}

pd_status pd_multislot_read(const struct pd_schema *schema, const char *text, const char *end,
                            struct pd_buf *out, const char **next, const char **why)
{
    const char *over = memchr(text, '\n', (size_t)(end - text));
    struct line l = {.schema = schema, .at = text, .end = over};
    *why = NULL;
    *next = over + 1;
    skip_spaces(&l);
    if (l.at == over) return PD_OK;
    /* A number of the text takes two bytes there and eight at most here; words have their length. */
    if (!pd_buf_reserve(out, pd_record_head(schema) + 4 * (size_t)(over - text) + 64)) return pd_no_memory();
    if (read_slots(&l, out->at + out->n))
        out->n = (size_t)(l.to - out->at);
    else
        *why = reason;
    return PD_OK;
}
