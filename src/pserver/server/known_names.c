/* See known_names.h. */
#include "pserver/server/known_names.h"

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

/* What its ops write of the values that last from step to step. */
static pd_status add_written(struct pd_map *values, const struct pd_program *program,
                             const struct pd_block *block, struct name_place *place)
{
    const struct pd_block *top = program ? pd_program_block(program, 0) : NULL;
    for (int i = 0; top && i < block->ops.n; i++) {
        const struct pd_opdesc *op = block->ops.at[i];
        for (int s = 0; s < op->out.n; s++)
            for (int k = 0; k < op->out.at[s].args.n; k++) {
                const char *name = op->out.at[s].args.at[k];
                const struct pd_var *var = pd_block_find(top, name);
                if (!var || !(var->flags & PD_VAR_PERSISTABLE) || pd_map_get(values, name)) continue;
                if (!pd_map_set(values, name, place)) return pd_no_memory();
            }
    }
    return PD_OK;
}

static struct name_place *add_place(struct pd_known_names *names, int lane, int unit)
{
    struct name_place *place = pd_calloc(1, sizeof *place);
    if (!place) return NULL;
    *place = (struct name_place){names->places, lane, unit};
    return names->places = place;
}

pd_status pd_known_names_add(struct pd_known_names *names, const struct pd_program *program, const char *grad,
                             const char *param, const struct pd_block *block, int lane, int unit)
{
    struct name_place *place = add_place(names, lane, unit);
    if (!place || !pd_map_set(&names->grads, grad, place) || !pd_map_set(&names->values, param, place))
        return pd_no_memory();
    return add_written(&names->values, program, block, place);
}

pd_status pd_known_names_add_shared(struct pd_known_names *names, const struct pd_program *program,
                                    const struct pd_block *block)
{
    struct name_place *place = add_place(names, 0, PD_UNIT_SHARED);
    return place ? add_written(&names->values, program, block, place) : pd_no_memory();
}

void pd_known_names_close(struct pd_known_names *names, const struct pd_program *program, size_t text)
{
    const struct pd_block *top = program ? pd_program_block(program, 0) : NULL;
    size_t n = 0, bytes = 0;
    pd_map_each(&names->grads, entry)
        n++, bytes += strlen(entry->key) + ENTRY;
    for (int i = 0; top && i < top->vars.n; i++)
        if (top->vars.at[i]->flags & PD_VAR_PERSISTABLE) n++, bytes += strlen(top->vars.at[i]->name) + ENTRY;
    names->most = n < (size_t)1 << 24 ? (int)(EACH * n) + AT_LEAST : 1 << 26;
    bytes = EACH * bytes + META_LEAST;
    if (bytes < text) bytes = text;
    names->meta = bytes < PD_FRAME_META_MAX ? (uint32_t)bytes : PD_FRAME_META_MAX;
}

void pd_known_names_free(struct pd_known_names *names)
{
    pd_map_free(&names->grads);
    pd_map_free(&names->values);
    while (names->places) {
        struct name_place *next = names->places->next;
        pd_free(names->places);
        names->places = next;
    }
}
