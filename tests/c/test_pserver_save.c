/* Parts of a table that several servers save: whichever saves meet, the last of them is whole in the end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "files_help.h"
#include "pserver/store/save_part.h"

enum { SERVERS = 3, SAVES = 3, ROUNDS = 400 };

struct server {
    uint32_t index;
    int folder;
    const struct pd_value *value;
    pthread_barrier_t *all;
    int failed;
};

static const char *name_of(char out[16], uint32_t index)
{
    snprintf(out, 16, "emb_%u", index);
    return out;
}

static struct pd_value *make_value(void)
{
    struct pd_value *v = NULL;
    assert_ok(pd_value_new(PD_KIND_TENSOR, &v));
    assert_ok(pd_tensor_resize(&v->tensor, PD_DTYPE_FP32, 1, (int64_t[]){4}));
    memset(v->tensor.data, 0, 16);
    return v;
}

static int has(const char *folder, const char *name)
{
    return access(path_in(folder, name), F_OK) == 0;
}

/* All parts of all saves are written, as by many trainers at once; each server hears of them at its own pace.
 */
static void *place_all(void *arg)
{
    struct server *s = arg;
    char name[16];
    name_of(name, s->index);
    for (uint64_t save = 1; save <= SAVES; save++) {
        struct pd_part part = {s->index, SERVERS, save};
        s->failed |= pd_part_write(s->folder, name, pd_file_body_of(s->value), &part, name) != PD_OK;
    }
    pthread_barrier_wait(s->all);
    for (uint64_t save = 1; save <= SAVES; save++) {
        struct pd_part part = {s->index, SERVERS, save};
        s->failed |= pd_part_place(s->folder, name, &part, name) != PD_OK;
    }
    return NULL;
}

static void test_saves_that_meet(void **state)
{
    (void)state;
    char *path = make_folder(), name[16];
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    struct pd_value *value = make_value();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_t all;
        pthread_t thread[SERVERS];
        struct server server[SERVERS];
        empty_folder(path);
        close(folder);
        folder = open(path, O_RDONLY | O_DIRECTORY);
        pthread_barrier_init(&all, NULL, SERVERS);
        for (uint32_t i = 0; i < SERVERS; i++) {
            server[i] = (struct server){.index = i, .folder = folder, .value = value, .all = &all};
            assert_int_equal(pthread_create(&thread[i], NULL, place_all, &server[i]), 0);
        }
        for (int i = 0; i < SERVERS; i++) {
            pthread_join(thread[i], NULL);
            assert_false(server[i].failed);
        }
        for (uint32_t i = 0; i < SERVERS; i++) {
            struct bytes file = read_whole(path, name_of(name, i));
            assert_int_equal((unsigned char)file.at[file.n - 8], SAVES);
            free(file.at);
        }
        pthread_barrier_destroy(&all);
    }
    pd_value_unref(value);
    close(folder);
    drop_folder(path);
}

/* Two servers save where three have: the third's part is removed by one of them. */
static void test_fewer_servers_than_before(void **state)
{
    (void)state;
    char *path = make_folder(), name[16];
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    struct pd_value *value = make_value();
    for (uint32_t count = 5; count; count--) {
        uint64_t save = pd_part_first_save((uint64_t)count << 40) + 1;
        for (uint32_t i = 0; i < count; i++)
            assert_ok(pd_part_write(folder, name_of(name, i), pd_file_body_of(value),
                                    &(struct pd_part){i, count, save}, name));
        for (uint32_t i = 0; i < count; i++)
            assert_ok(pd_part_place(folder, name_of(name, i), &(struct pd_part){i, count, save}, name));
        for (uint32_t i = 0; i < 6; i++)
            assert_int_equal(has(path, name_of(name, i)), i < count);
    }
    pd_value_unref(value);
    close(folder);
    drop_folder(path);
}

/* What a save that came to nothing left goes with the next; a part that is asked for twice is there once. */
static void test_what_is_left_of_earlier_ones(void **state)
{
    (void)state;
    char *path = make_folder();
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    struct pd_value *value = make_value();
    struct pd_part dead = {0, 2, 5}, next = {0, 2, 6};
    assert_ok(pd_part_write(folder, "emb_0", pd_file_body_of(value), &dead, "emb_0"));
    assert_ok(pd_part_write(folder, "emb_0", pd_file_body_of(value), &next, "emb_0"));
    assert_ok(pd_part_place(folder, "emb_0", &next, "emb_0"));
    assert_ok(pd_part_place(folder, "emb_0", &next, "emb_0"));
    assert_false(has(path, "emb_0.save-0000000000000005"));
    assert_ok(pd_part_place(folder, "emb_0", &dead, "emb_0")); /* a later one has the name */
    assert_error(pd_part_place(folder, "emb_0", &(struct pd_part){0, 2, 7}, "emb_0"), PD_IO, "save again");
    pd_value_unref(value);
    close(folder);
    drop_folder(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saves_that_meet),
        cmocka_unit_test(test_fewer_servers_than_before),
        cmocka_unit_test(test_what_is_left_of_earlier_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
