/* Any bytes as a server's log or as the manifest of a snapshot. Bit 0 of the first byte says which; bit 1:
 * the rest are changes to a right file (place and new byte, three bytes each) instead of the file itself; bit
 * 2: checksums are made right afterwards, so that what is behind them is reached. Notes of a manifest go to a
 * shard as what it had of open pushes. */
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <paddle/paddle.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "exec/executor.h"
#include "pserver/proto.h"
#include "pserver/shard/shard.h"
#include "pserver/store/journal_private.h"
#include "pserver/store/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { MOST = 1 << 16, DATA = 256 + 64 };
#define LOG "log-0-00000000000000000000"
#define SERVER "a_1" /* the folder of the endpoint a:1 */
#define SNAPSHOT SERVER "/snapshot-00000000000000000005"

static char root[PATH_MAX / 2], log_path[PATH_MAX], manifest_path[PATH_MAX], server[PATH_MAX];
static char right_log[MOST], right_manifest[MOST];
static size_t right_log_n, right_manifest_n;

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static void clean_up(void)
{
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void must(pd_status status)
{
    if (status == PD_OK) return;
    fprintf(stderr, "%s\n", pd_error());
    abort();
}

static size_t load(const char *path, char *to)
{
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(to, 1, MOST, file) : 0;
    if (!n) abort();
    fclose(file);
    return n;
}

static void store(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) abort();
}

static void make_log(void)
{
    struct pd_journal *j = NULL;
    must(pd_journal_begin(root, 0, PD_DURABLE_WRITE, 0, 0));
    must(pd_journal_open(root, 0, PD_DURABLE_WRITE, 0, &j));
    for (int i = 0; i < 5; i++) {
        char payload[100] = "payload";
        struct iovec part = {payload, (size_t)(i * 17)};
        must(pd_journal_append(j, &(struct pd_record){.kind = 1, .step = (uint64_t)i + 1, .trainer = i - 1},
                               &part, 1));
        if (i % 2) must(pd_journal_commit(j));
    }
    must(pd_journal_commit(j));
    pd_journal_close(j);
    right_log_n = load(log_path, right_log);
}

static void make_snapshot(void)
{
    float data[64] = {1, 2, 3};
    struct pd_snapshot_var vars[] = {
        {.name = "w.block0",
         .dtype = PD_DTYPE_FP32,
         .rank = 2,
         .dim = {5, 8},
         .data = data,
         .whole = "w",
         .whole_rows = 9},
        {.name = "w.block1",
         .dtype = PD_DTYPE_FP32,
         .rank = 2,
         .dim = {2, 8},
         .data = data,
         .whole = "w",
         .first_row = 5,
         .row_step = 2,
         .whole_rows = 9},
        {.name = "n", .dtype = PD_DTYPE_INT64, .rank = 0, .data = data},
    };
    struct pd_snapshot_job *job = NULL;
    must(pd_snapshot_prepare(
        server,
        &(struct pd_snapshot_info){
            5, "a:1", 1, 1, 3, 2, (const char *const[]){"a:1"}, &(struct pd_snapshot_trainer){3, 4}, vars,
            (struct pd_snapshot_note[]){{"key", "a value"},
                                        {"open0", "0 81985529216486895 1 0:0,2-69;2 7 1 0:1"}}},
        &job));
    must(pd_snapshot_write(job));
    pd_snapshot_job_free(job);
    right_manifest_n = load(manifest_path, right_manifest);
}

/* ---- a shard ---- */

enum { PARTS = 70, TRAINERS = 3 };
static pd_prepared *plan;
static pd_scope *scope;
static int block;

static void add_var(pd_program *p, const char *name, int64_t n, int is_held)
{
    int64_t id;
    int existed;
    pd_value *held;
    must(pd_var_create(p, 0, name, PD_LOD_TENSOR, &id, &existed));
    must(pd_var_set_dtype(p, id, PD_FLOAT32));
    must(pd_var_set_shape(p, id, 1, &n));
    if (!is_held) return;
    must(pd_scope_var(scope, name, &held));
    must(pd_value_set_tensor(held, PD_FLOAT32, 1, &n, NULL));
}

static void make_plan(void)
{
    static pd_program *p;
    static pd_executor *executor;
    int64_t id, n = (PARTS - 1) * (int64_t)(PD_PS_PART / sizeof(float)) + 1;
    pd_op_builder *op;
    must(pd_program_create(&p));
    must(pd_scope_create(NULL, &scope));
    add_var(p, "w", n, 1);
    add_var(p, "rate", 1, 1);
    add_var(p, "w@GRAD", n, 0);
    must(pd_block_create(p, 0, &block));
    must(pd_op_begin(p, "sgd", &op));
    must(pd_op_add_arg(op, 0, "Param", "w"));
    must(pd_op_add_arg(op, 0, "Grad", "w@GRAD"));
    must(pd_op_add_arg(op, 0, "LearningRate", "rate"));
    must(pd_op_add_arg(op, 1, "ParamOut", "w"));
    must(pd_op_insert(op, block, -1, &id));
    must(pd_executor_create(&executor));
    must(pd_executor_prepare(executor, p, 0, NULL, 0, NULL, &plan));
    plan->frame->scope = scope;
}

static struct pd_shard *new_shard(void)
{
    struct pd_shard *shard;
    struct pd_unit_spec spec = {.grad = "w@GRAD", .block = block};
    struct pd_engine engine = pd_engine_of(plan->frame, NULL);
    struct pd_rule *rule;
    int unit;
    must(pd_shard_new(&(struct pd_shard_config){.trainers = TRAINERS}, &shard));
    must(pd_rule_new(&engine, block, "w@GRAD", &rule));
    must(pd_table_of_value("w", pd_scope_find(scope, "w"), rule, &spec.table));
    must(pd_shard_add(shard, &spec, &unit));
    return shard;
}

/* What is taken is written as it was meant. */
static void try_open(const char *text)
{
    struct pd_shard *shard = new_shard(), *again = new_shard();
    struct pd_buf first = {0}, second = {0};
    if (pd_shard_read_open(shard, text) == PD_OK) {
        pd_shard_write_open(shard, &first);
        must(pd_shard_read_open(again, first.at));
        pd_shard_write_open(again, &second);
        if (first.failed || second.failed || first.n != second.n || !first.n != !*text) abort();
        if (first.n && memcmp(first.at, second.at, first.n) != 0) abort();
    }
    pd_buf_free(&first);
    pd_buf_free(&second);
    pd_shard_free(shard);
    pd_shard_free(again);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : P_tmpdir;
    snprintf(root, sizeof root, "%s/pd-fuzz-XXXXXX", base);
    if (!mkdtemp(root)) abort();
    atexit(clean_up);
    snprintf(log_path, sizeof log_path, "%s/" LOG, root);
    snprintf(server, sizeof server, "%s/" SERVER, root);
    snprintf(manifest_path, sizeof manifest_path, "%s/" SNAPSHOT "/manifest", root);
    pd_log_set_limit(PD_LOG_ERROR);
    make_log();
    make_snapshot();
    make_plan();
    return 0;
}

/* ---- the log ---- */

static void repair_log(char *log, size_t n)
{
    struct pd_log_file file;
    struct pd_log_mark mark;
    struct pd_log_head head;
    if (n < PD_LOG_BEGIN) return;
    memcpy(&file, log, sizeof file);
    file.crc = pd_crc32c(0, &file, offsetof(struct pd_log_file, crc));
    memcpy(log, &file, sizeof file);
    for (int i = 1; i <= PD_LOG_MARKS; i++) {
        memcpy(&mark, log + i * PD_LOG_SECTOR, sizeof mark);
        mark.crc = pd_log_mark_crc(&file, &mark);
        memcpy(log + i * PD_LOG_SECTOR, &mark, sizeof mark);
    }
    for (size_t at = PD_LOG_BEGIN; at < n && n - at >= sizeof head;) {
        memcpy(&head, log + at, sizeof head);
        size_t left = n - at - sizeof head;
        if (head.bytes <= left) head.payload_crc = pd_crc32c(0, log + at + sizeof head, (size_t)head.bytes);
        head.crc = pd_log_head_crc(&file, &head);
        memcpy(log + at, &head, sizeof head);
        if (head.bytes > left) break;
        at += sizeof head + (size_t)head.bytes + (size_t)pd_log_padding(head.bytes);
    }
}

struct sum {
    uint64_t records, bytes, crc;
};

static pd_status add(void *arg, const struct pd_record *head, const void *payload, size_t n)
{
    struct sum *sum = arg;
    (void)head;
    sum->records++;
    sum->bytes += n;
    sum->crc = pd_crc32c((uint32_t)sum->crc, payload, n);
    return PD_OK;
}

/* What a replay gives is what is left when the log is opened, goes on and is replayed again. */
static void try_log(const char *log, size_t n)
{
    struct pd_replay_from from = {.trainers = 2, .trainer_steps = (uint64_t[]){0, 0}}, less = from;
    int yes;
    char name[64];
    less.takes_less = 1;
    struct pd_replay_result result;
    struct sum first = {0}, second = {0};
    struct pd_journal *j = NULL;
    store(log_path, log, n);
    pd_status status = pd_journal_replay(root, 0, &from, add, &first, &result);
    if (first.bytes > n) abort();
    must(pd_journal_has_records(root, 0, &yes, name));
    if (first.records && !yes) abort();
    if (status != PD_OK) {
        /* Whatever the trouble is, what is right before it is had. */
        must(pd_journal_replay(root, 0, &less, add, &second, &result));
        if (!result.less[0] || second.records != first.records || second.crc != first.crc) abort();
        return;
    }
    if (pd_journal_open(root, 0, PD_DURABLE_WRITE, 0, &j) != PD_OK) abort();
    must(pd_journal_append(j, &(struct pd_record){.step = 1}, NULL, 0));
    must(pd_journal_commit(j));
    pd_journal_close(j);
    must(pd_journal_replay(root, 0, &from, add, &second, &result));
    if (result.is_torn || second.records != first.records + 1 || second.crc != first.crc) abort();
}

/* ---- the manifest ---- */

static void repair_manifest(char *text, size_t n)
{
    char crc[10];
    if (n < 9) return;
    snprintf(crc, sizeof crc, "%08" PRIx32 "\n", pd_crc32c(0, text, n - 9));
    memcpy(text + n - 9, crc, 9);
}

/* All that an open snapshot shows can be read, and so can all rows that it says it has. */
static void try_snapshot(const char *text, size_t n)
{
    struct pd_snapshot *s = NULL;
    struct pd_snapshot_set *set = NULL;
    store(manifest_path, text, n);
    if (pd_snapshot_open(server, 5, &s) != PD_OK) return;
    const struct pd_snapshot_info *info = pd_snapshot_info(s);
    uint64_t bytes = 0;
    pd_snapshot_check(s);
    for (int i = 0; i < info->n_vars; i++) {
        const struct pd_snapshot_var *v = &info->vars[i];
        if (pd_snapshot_find(s, v->name) != v) abort();
        if (v->bytes != (uint64_t)pd_snapshot_rows(v) * (uint64_t)pd_snapshot_row_bytes(v)) abort();
        bytes += v->bytes;
    }
    if (bytes > DATA) abort();
    for (int i = 0; i < info->n_notes; i++) {
        if (!pd_snapshot_note(s, info->notes[i].key)) abort();
        try_open(info->notes[i].value);
    }
    if (pd_snapshot_set_open(root, 5, NULL, &set) == PD_OK) {
        for (int i = 0; i < info->n_vars; i++) {
            const struct pd_snapshot_var *v = &info->vars[i];
            int64_t rows = v->whole_rows < 100 ? v->whole_rows : 100, row = pd_snapshot_row_bytes(v);
            char *out = row < MOST ? pd_malloc((size_t)(rows * row)) : NULL;
            if (out) pd_snapshot_set_read(set, v->whole, 0, rows, out, (size_t)(rows * row));
            if (out && rows) pd_snapshot_set_read(set, v->whole, v->whole_rows - 1, 1, out, (size_t)row);
            pd_free(out);
        }
        pd_snapshot_set_close(set);
    }
    pd_snapshot_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static char file[MOST];
    if (n == 0 || n > MOST) return 0;
    int is_log = bytes[0] & 1, is_changed = bytes[0] & 2, is_repaired = bytes[0] & 4;
    size_t size = n - 1;
    if (is_changed) {
        size = is_log ? right_log_n : right_manifest_n;
        memcpy(file, is_log ? right_log : right_manifest, size);
        for (size_t i = 1; i + 2 < n; i += 3)
            file[(bytes[i] | (size_t)bytes[i + 1] << 8) % size] = (char)bytes[i + 2];
    } else {
        memcpy(file, bytes + 1, size);
    }
    if (is_repaired) (is_log ? repair_log : repair_manifest)(file, size);
    (is_log ? try_log : try_snapshot)(file, size);
    return 0;
}
