/* See job_text.h. */
#include "pserver/job_text.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "net/wire.h"

enum {
    MOST = 1 << 20, /* bytes that are told line by line */
    LINE = 1023,    /* of a line, the rest of which is only hashed */
    SHOWN = 300,    /* of a line in a message */
};

static uint64_t hash(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return (h ^ '\n') * UINT64_C(0x100000001b3);
}

static void put_hash(struct pd_buf *out, const char *what, uint64_t h)
{
    char line[80];
    snprintf(line, sizeof line, "%s: %016llx", what, (unsigned long long)h);
    pd_put_line(out, line, LINE);
}

void pd_job_text_pack(int n, const char *const *lines, struct pd_buf *out)
{
    const uint64_t empty = UINT64_C(0xcbf29ce484222325);
    size_t bytes = 0;
    int told = 0;
    while (told < n && bytes + strlen(lines[told]) < MOST)
        bytes += strlen(lines[told++]);
    uint64_t rest = empty, cut = empty;
    for (int i = 0; i < n; i++)
        if (i >= told)
            rest = hash(rest, lines[i]);
        else if (strlen(lines[i]) > LINE)
            cut = hash(cut, lines[i]);
    pd_put_u32(out, (uint32_t)(told + (cut != empty) + (told < n)));
    for (int i = 0; i < told; i++)
        pd_put_line(out, lines[i], LINE);
    if (cut != empty) put_hash(out, "long lines", cut);
    if (told < n) put_hash(out, "further lines", rest);
}

/* The next line; 0: there is none. */
static int next(struct pd_reader *r, uint32_t *left, char line[LINE + 1])
{
    line[0] = 0;
    if (!*left || r->bad) return 0;
    (*left)--;
    pd_read_text(r, line, LINE + 1);
    return !r->bad;
}

static int begins_with_one(const char *line, const char *const *of)
{
    while (*of && strncmp(line, *of, strlen(*of)) != 0)
        of++;
    return *of != NULL;
}

void pd_job_text_put(const struct pd_buf *packed, const char *word, const char *const *but,
                     struct pd_buf *out)
{
    struct pd_reader r = pd_reader_of(packed->at, packed->n);
    uint32_t left = packed->n ? pd_read_u32(&r) : 0;
    char line[LINE + 1];
    while (next(&r, &left, line)) {
        if (begins_with_one(line, but)) continue;
        for (char *c = line; *c; c++)
            if (*c == '\n') *c = ' ';
        pd_buf_printf(out, "%s%s\n", word, line);
    }
}

static size_t what_n(const char *line)
{
    const char *colon = strstr(line, ": ");
    return colon ? (size_t)(colon - line) : strlen(line);
}

static int same_what(const char *a, const char *b)
{
    return what_n(a) == what_n(b) && memcmp(a, b, what_n(a)) == 0;
}

static int has(const void *text, size_t n, const char *line)
{
    char other[LINE + 1];
    struct pd_reader r = pd_reader_of(text, n);
    uint32_t left = pd_read_u32(&r);
    while (next(&r, &left, other))
        if (same_what(line, other)) return 1;
    return 0;
}

static const char *how(const char *line)
{
    size_t n = what_n(line);
    return line[n] ? line + n + 2 : line + n;
}

/* "float32 [8, 16], sgd(a=1), dense, ..." of a line on a parameter: its optimizer, and how many bytes that
 * is. */
static const char *rule_of(const char *line, int *n)
{
    const char *rule = strstr(how(line), "], ");
    rule = rule ? rule + 3 : "";
    *n = (int)strcspn(rule, ")");
    return rule;
}

/* Both lines are on one parameter, and differ in its optimizer: PD_OK where that is not so. */
static pd_status other_rule(const char *mine, const char *theirs)
{
    static const char what[] = "parameter ";
    int mine_n, theirs_n, kind_n;
    const char *at_mine = rule_of(mine, &mine_n), *at_theirs = rule_of(theirs, &theirs_n);
    size_t before = (size_t)(at_mine - mine);
    if (strncmp(mine, what, strlen(what)) != 0 || !*at_mine || (size_t)(at_theirs - theirs) != before ||
        memcmp(mine, theirs, before) != 0 ||
        (mine_n == theirs_n && memcmp(at_mine, at_theirs, (size_t)mine_n) == 0))
        return PD_OK;
    kind_n = (int)strcspn(at_mine, "(");
    /* What they are called tells enough, unless both are called the same. */
    if ((int)strcspn(at_theirs, "(") == kind_n && memcmp(at_mine, at_theirs, (size_t)kind_n) == 0)
        mine_n++, theirs_n++;
    else
        mine_n = kind_n, theirs_n = (int)strcspn(at_theirs, "(");
    return pd_fail(
        PD_INVALID,
        "the trainer's Program is not this server's: the optimizer of '%.*s' is %.*s at the trainer, and "
        "%.*s here. Give both the same optimizer: the server's is the one that is used",
        (int)(what_n(mine) - strlen(what)), mine + strlen(what), theirs_n < SHOWN ? theirs_n : SHOWN,
        at_theirs, mine_n < SHOWN ? mine_n : SHOWN, at_mine);
}

static pd_status differ(const char *mine, const char *theirs, const struct pd_buf *all_mine,
                        const void *all_theirs, size_t theirs_n)
{
    static const char hint[] = "do both run the same script with the same arguments?";
    if (*mine && *theirs && same_what(mine, theirs)) {
        PD_TRY(other_rule(mine, theirs));
        return pd_fail(
            PD_INVALID,
            "the trainer's Program is not this server's: %.*s is %.*s at the trainer, and %.*s here: %s",
            (int)what_n(mine), mine, SHOWN, how(theirs), SHOWN, how(mine), hint);
    }
    if (*mine && !has(all_theirs, theirs_n, mine))
        return pd_fail(PD_INVALID,
                       "the trainer's Program is not this server's: the server has %.*s (%.*s), which the "
                       "trainer has not: %s",
                       (int)what_n(mine), mine, SHOWN, how(mine), hint);
    if (*theirs && !has(all_mine->at, all_mine->n, theirs))
        return pd_fail(PD_INVALID,
                       "the trainer's Program is not this server's: the trainer has %.*s (%.*s), which the "
                       "server has not: %s",
                       (int)what_n(theirs), theirs, SHOWN, how(theirs), hint);
    return pd_fail(
        PD_INVALID,
        "the trainer's Program is not this server's: '%.*s' stands where the server has '%.*s': %s", SHOWN,
        theirs, SHOWN, mine, hint);
}

pd_status pd_job_text_compare(const struct pd_buf *mine, const void *theirs, size_t theirs_n)
{
    char here[LINE + 1], there[LINE + 1];
    if (theirs_n == mine->n && memcmp(theirs, mine->at, theirs_n) == 0) return PD_OK;
    struct pd_reader a = pd_reader_of(mine->at, mine->n), b = pd_reader_of(theirs, theirs_n);
    uint32_t a_left = pd_read_u32(&a), b_left = pd_read_u32(&b);
    for (;;) {
        int more = next(&a, &a_left, here) | next(&b, &b_left, there);
        if (b.bad || !more) return pd_fail(PD_FORMAT, "malformed PROGRAM");
        if (strcmp(here, there) != 0) return differ(here, there, mine, theirs, theirs_n);
    }
}
