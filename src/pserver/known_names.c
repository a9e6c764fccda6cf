/* See known_names.h. */
#include "pserver/known_names.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/frame.h"

enum {
    EACH = 4,             /* times that an OPEN may have a name */
    ENTRY = 128,          /* bytes of an entry beside its name, and to spare */
    AT_LEAST = 64,        /* names */
    META_LEAST = 64 << 10 /* bytes */
};

pd_status pd_known_names_add(struct pd_known_names *names, const char *grad, const char *param, int lane, int unit)
{
    struct name_place *place = pd_calloc(1, sizeof *place);
    if (!place) return pd_no_memory();
    *place = (struct name_place){names->places, lane, unit};
    names->places = place;
    return pd_map_set(&names->grads, grad, place) && pd_map_set(&names->params, param, place)
               ? PD_OK
               : pd_no_memory();
}

void pd_known_names_close(struct pd_known_names *names, const struct pd_program *program, size_t text)
{
    const struct pd_block *top = program ? pd_program_block(program, 0) : NULL;
    size_t n = 0, bytes = 0;
    pd_map_each(&names->grads, entry) n++, bytes += strlen(entry->key) + ENTRY;
    for (int i = 0; top && i < top->vars.n; i++)
        if (top->vars.at[i]->flags & PD_VAR_PERSISTABLE)
            n++, bytes += strlen(top->vars.at[i]->name) + ENTRY;
    names->most = n < (size_t)1 << 24 ? (int)(EACH * n) + AT_LEAST : 1 << 26;
    bytes = EACH * bytes + META_LEAST;
    if (bytes < text) bytes = text;
    names->meta = bytes < PD_FRAME_META_MAX ? (uint32_t)bytes : PD_FRAME_META_MAX;
}

void pd_known_names_free(struct pd_known_names *names)
{
    pd_map_free(&names->grads);
    pd_map_free(&names->params);
    while (names->places) {
        struct name_place *next = names->places->next;
        pd_free(names->places);
        names->places = next;
    }
}
