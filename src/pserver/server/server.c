/* The life of a server; see server.h. In this order: connections are greeted and given to a lane or to the
 * control loop; the servers of this process; the gradients it holds, a unit and a table for each; start and
 * end, with how many loops there are and which has what; lanes stand still for the main thread; the main
 * thread waits for the end of the job, and brings it about when it is asked to (pd_server_wait); the job
 * fails. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/flags.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/wait.h"
#include "pserver/job_text.h"
#include "pserver/proto.h"
#include "pserver/server/book.h"
#include "pserver/server/control.h"
#include "pserver/server/first_link.h"
#include "pserver/server/order.h"
#include "pserver/server/sums.h"
#include "pserver/server/watch.h"
#include "pserver/shard/table_hashed.h"
#include "pserver/store/durable.h"
#include "pserver/store/save_part.h"

/* ---- greeting trainers, on the listener's loop ---- */

/* Who it stands for is settled by its first OPEN (book.h): here is only checked what it says. */
static pd_status check_trainer(const struct pd_server *s, const struct pd_hello *hello)
{
    if (hello->trainers && (int)hello->trainers != s->config.trainers)
        return pd_fail(
            PD_INVALID,
            "the trainer was started for %u trainers, the server for %d: give both the same number",
            hello->trainers, s->config.trainers);
    if (hello->id >= s->config.trainers)
        return pd_fail(PD_RANGE, "trainer id %d, but the job has %d trainers: ids go from 0 to %d", hello->id,
                       s->config.trainers, s->config.trainers - 1);
    return PD_OK;
}

/* Those of the job that may poll; other servers have as many loops, as far as this one knows. */
static int processes_of(const struct pd_server *s)
{
    return s->config.trainers + s->config.servers * s->n_lanes;
}

static pd_status greet(void *arg, const struct pd_hello *hello, const char *peer, struct pd_welcome *welcome,
                       struct pd_loop **loop, const struct pd_conn_events **events, void **user)
{
    struct pd_server *s = arg;
    int is_trainer = hello->role == PD_ROLE_TRAINER;
    if (is_trainer && hello->loop == PD_PS_BRINGS) return pd_fail(PD_EXISTS, "this server has its Program");
    if (hello->loop >= s->n_lanes)
        return pd_fail(PD_RANGE,
                       "it wants loop %d of this server, which has %d (FLAGS_ps_loops, or the machine's "
                       "cores): it was started again with another number. Start the trainers again, too",
                       hello->loop, s->n_lanes);
    PD_TRY(is_trainer ? check_trainer(s, hello) : pd_control_greet(s->control, hello, peer));
    welcome->id = hello->id;
    welcome->loops = (uint16_t)s->n_lanes;
    welcome->incarnation = s->incarnation;
    welcome->processes = (uint32_t)processes_of(s);
    snprintf(welcome->note, sizeof welcome->note, "%s", pd_loss_names[s->config.on_loss]);
    *loop = is_trainer ? s->lanes[hello->loop].loop : pd_control_loop(s->control);
    *events = is_trainer ? &pd_session_events : &pd_control_events;
    *user = is_trainer ? (void *)&s->lanes[hello->loop] : (void *)s;
    return PD_OK;
}

static void accepted(void *user, struct pd_conn *conn)
{
    if (pd_conn_hello(conn)->role == PD_ROLE_TRAINER)
        pd_session_accepted(user, conn);
    else
        pd_control_accepted(((struct pd_server *)user)->control, conn);
}

static const struct pd_listener_events listener_events = {.greet = greet, .accepted = accepted};

/* ---- the servers of this process ---- */

static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pd_server *running;

static struct pd_server *find_running(const char *endpoint)
{
    struct pd_server *s = running;
    while (s && strcmp(s->config.endpoint, endpoint) != 0)
        s = s->next;
    return s;
}

struct pd_server *pd_server_running(const char *endpoint)
{
    PD_HOLD(&running_lock);
    return find_running(endpoint);
}

int pd_server_port_at(const char *endpoint)
{
    PD_HOLD(&running_lock);
    const struct pd_server *s = find_running(endpoint);
    return s ? atomic_load(&s->port) : 0;
}

static void set_running(struct pd_server *s, int on)
{
    PD_HOLD(&running_lock);
    struct pd_server **at = &running;
    while (*at && *at != s)
        at = &(*at)->next;
    if (on && !*at) *at = s;
    if (!on && *at) *at = s->next;
}

int pd_server_is_ending(struct pd_server *s)
{
    PD_HOLD(&s->lock);
    return s->failed || s->ending;
}

/* ---- what it holds ---- */

static pd_status copy_config(struct pd_server *s, const struct pd_server_config *config)
{
    s->config = *config;
    s->config.grads = NULL;
    s->config.hashed = NULL;
    s->config.lines = NULL;
    s->config.http = NULL;
    if (config->n_lines) pd_job_text_pack(config->n_lines, config->lines, &s->job_text);
    s->config.endpoint = pd_strdup_some(config->endpoint);
    s->config.job = pd_strdup_some(config->job);
    s->config.save_root = pd_strdup_some(config->save_root);
    s->config.kept_root = pd_strdup_some(config->kept_root);
    int is_whole = s->config.endpoint && s->config.job && s->config.save_root && s->config.kept_root;
    return is_whole && !s->job_text.failed ? PD_OK : pd_no_memory();
}

/* The parameter that a block's optimizer changes. */
static const char *param_of(const struct pd_program *program, int block)
{
    const struct pd_block *b = pd_program_block(program, block);
    for (int i = 0; b && i < b->ops.n; i++) {
        const char *param = pd_opdesc_arg(b->ops.at[i], 0, "Param");
        if (param && pd_opdesc_arg(b->ops.at[i], 1, "ParamOut")) return param;
    }
    return NULL;
}

/* The settings of a table of rows by id; NULL: it is a variable. */
static const char *hashed_as(const struct pd_server_config *config, const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < config->n_hashed; i++)
        if (strncmp(config->hashed[i], name, length) == 0 && strchr("\t", config->hashed[i][length]))
            return config->hashed[i];
    return NULL;
}

static pd_status make_table(struct pd_server *s, const struct pd_server_config *config,
                            const struct pd_server_grad *grad, const char *name, struct pd_value *param,
                            struct pd_table **out)
{
    struct pd_rule *rule = NULL;
    const char *hashed = hashed_as(config, name);
    if (hashed) {
        struct pd_hashed_options options;
        PD_TRY(pd_hashed_options_read(hashed, &options));
        PD_TRY(pd_rule_new_of_rows(&s->engine, grad->block, grad->name, &rule));
        return pd_table_hashed_new(&s->engine, name, param, rule, &options, out);
    }
    if (s->config.prepare_block < 0) PD_TRY(pd_rule_new(&s->engine, grad->block, grad->name, &rule));
    return pd_table_of_value(name, param, rule, out);
}

static pd_status add_grad(struct pd_server *s, const struct pd_server_config *config,
                          const struct pd_server_grad *grad, int lane)
{
    const struct pd_program *program = s->engine.program;
    const char *name = param_of(program, grad->block);
    if (!name)
        return pd_fail(PD_INVALID,
                       "block %d of the server's Program, which gradient '%s' feeds, has no optimizer op",
                       grad->block, grad->name);
    struct pd_value *param = pd_engine_lasting(&s->engine, name);
    if (!param || !param->tensor.data)
        return pd_fail(PD_NOT_FOUND,
                       "parameter '%s' has no value; run the server's startup program first (Fleet: "
                       "fleet.init_server())",
                       name);
    const struct pd_var *var = pd_block_find(pd_program_block(program, 0), grad->name);
    struct pd_unit_spec spec = {.grad = grad->name, .block = grad->block, .parts = grad->parts};
    int number;
    spec.adds = pd_rule_adds(&s->engine, s->config.prepare_block, grad->block, grad->name);
    spec.is_rows = var && var->meta.kind == PD_KIND_SELECTED_ROWS;
    PD_TRY(make_table(s, config, grad, name, param, &spec.table));
    PD_TRY(pd_shard_add(s->lanes[lane].shard, &spec, &number));
    return pd_known_names_add(&s->names, program, grad->name, name, pd_program_block(program, grad->block),
                              lane, number);
}

/* ---- start and end ---- */

/* Bytes of what the gradients change. */
static size_t bytes_of(const struct pd_engine *engine, const struct pd_server_grad *grad)
{
    const char *name = param_of(engine->program, grad->block);
    const struct pd_value *param = name ? pd_engine_lasting(engine, name) : NULL;
    return param && param->tensor.data ? pd_tensor_bytes(&param->tensor) : 0;
}

/* Small models gain nothing from more loops, and every loop wants half a core: the trainers need some too. */
enum { LOOP_BYTES = 4 << 20 };

static int choose_loops(const struct pd_engine *engine, const struct pd_server_config *config)
{
    if (config->prepare_block >= 0) return 1; /* it needs all gradients of the server at once */
    if (config->loops > 0) return config->loops;
    size_t bytes = 0;
    for (int i = 0; i < config->n_grads; i++)
        bytes += bytes_of(engine, &config->grads[i]);
    long cores = sysconf(_SC_NPROCESSORS_ONLN) / 2;
    if (bytes < LOOP_BYTES || cores < 2) return 1;
    int loops = cores < 4 ? (int)cores : 4;
    return loops < config->n_grads ? loops : config->n_grads ? config->n_grads : 1;
}

/* The loop with the fewest bytes so far gets the next parameter. */
static int lightest(const size_t *bytes, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (bytes[i] < bytes[best]) best = i;
    return best;
}

/* How long a lane has written a file for a trainer, in ms; 0: it does not. */
static int64_t saves_for(const struct lane *lane)
{
    int64_t since = atomic_load(&lane->saves_since);
    return since ? (pd_clock_ns() - since) / 1000000 : 0;
}

/* Does the disk hold a lane, for longer than it takes to say so? Then it cannot be ended. */
static int is_held(const struct pd_server *s)
{
    for (int i = 0; s->lanes && i < s->n_lanes; i++)
        if (saves_for(&s->lanes[i]) >= s->config.notice_ms) return 1;
    return pd_durable_is_held(s->durable);
}

static void tell_of_saves(struct pd_server *s)
{
    for (int i = 0; i < s->n_lanes; i++) {
        struct lane *lane = &s->lanes[i];
        int64_t ms = saves_for(lane), now = pd_clock_ns();
        if (ms < s->config.notice_ms || (now - lane->save_noticed) / 1000000 < s->config.notice_ms) continue;
        lane->save_noticed = now;
        pd_log(PD_LOG_WARNING, "writing a value for a trainer has taken %lld s: is the disk stuck?",
               (long long)(ms / 1000));
    }
}

/* Ends all loops; what they own stays. 0: the disk holds one. */
static int stop_loops(struct pd_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->ending = 1; /* a lane may wait for other servers */
    s->stops = 0;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pd_watch_ends(s->watch);
    pd_control_close(s->control); /* the listener goes first */
    for (int i = 0; i < s->n_lanes; i++) {
        while (s->lanes[i].loop && !pd_loop_stop_within(s->lanes[i].loop, 100))
            if (is_held(s)) return 0;
        pd_loop_free(s->lanes[i].loop);
        s->lanes[i].loop = NULL;
    }
    return 1;
}

/* A lane that the disk holds cannot be ended, and uses what the server has: all of it is left behind. */
void pd_server_free(struct pd_server *s)
{
    if (!s || !stop_loops(s)) return;
    pd_watch_close(s->watch);
    pd_durable_close(s->durable);
    for (int i = 0; i < s->n_lanes; i++)
        pd_lane_close(&s->lanes[i]);
    pd_order_free(s->order);
    pd_sums_free(s->sums);
    if (s->adds != s->first) pd_first_link_free(s->adds);
    pd_first_link_free(s->first);
    pd_control_free(s->control);
    pd_watch_free(s->watch);
    set_running(s, 0);
    pd_free(s->lanes);
    pd_book_free(s->book);
    pd_free((char *)s->config.endpoint);
    pd_free((char *)s->config.job);
    pd_free((char *)s->config.save_root);
    pd_free((char *)s->config.kept_root);
    pd_known_names_free(&s->names);
    pd_buf_free(&s->job_text);
    pthread_mutex_destroy(&s->engine_lock);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    pd_free(s);
}

/* The ways to those where something has to be agreed on or added up: one where both are the same. */
static pd_status link_others(struct pd_server *s)
{
    struct pd_first_link_spec first = {.order = s->order}, adds = {.sums = s->sums};
    if (s->order) first.to = pd_order_first(s->order, &first.self);
    if (s->sums) adds.to = pd_sums_first(s->sums, &adds.self, &adds.place);
    int is_one = first.to && adds.to && adds.place == first.place;
    if (is_one) first.sums = s->sums;
    if (first.to) PD_TRY(pd_first_link_new(s, pd_control_loop(s->control), &first, &s->first));
    if (is_one) s->adds = s->first;
    if (!adds.to || is_one) return PD_OK;
    return pd_first_link_new(s, pd_control_loop(s->control), &adds, &s->adds);
}

/* A log is of steps that can be done again. */
static pd_status check_log(const struct pd_server_config *config, const struct pd_program *program)
{
    if (!config->durable || !config->durable->log || !*config->durable->log) return PD_OK;
    for (int i = 0; i < config->n_grads; i++)
        PD_TRY(pd_durable_can_repeat(program, config->grads[i].block));
    PD_TRY(pd_durable_can_repeat(program, config->lr_block));
    return pd_durable_can_repeat(program, config->prepare_block);
}

static pd_status start(struct pd_server *s, const struct pd_server_config *config)
{
    const struct pd_durable_config *job = config->durable;
    PD_TRY(pd_order_new(s, job ? job->n_servers : 0, job ? job->servers : NULL, &s->order));
    for (int i = 0; i < s->n_lanes; i++) {
        s->lanes[i].server = s;
        s->lanes[i].index = i;
        PD_TRY(pd_loop_new(&s->lanes[i].loop));
        PD_TRY(pd_lane_open(&s->lanes[i]));
    }
    if (config->lr_block >= 0)
        PD_TRY(pd_known_names_add_shared(&s->names, s->engine.program,
                                         pd_program_block(s->engine.program, config->lr_block)));
    size_t bytes[PD_FLAG_MOST_ps_loops] = {0};
    for (int i = 0; i < config->n_grads; i++) {
        int lane = lightest(bytes, s->n_lanes);
        PD_TRY(add_grad(s, config, &config->grads[i], lane));
        bytes[lane] += bytes_of(&s->engine, &config->grads[i]);
    }
    pd_known_names_close(&s->names, s->engine.program, s->job_text.n);
    set_running(s, 1); /* its Program's ops ask for it, also when the log does them again */
    PD_TRY(pd_sums_new(s, job ? job->n_servers : 0, job ? job->servers : NULL, &s->sums));
    PD_TRY(check_log(config, s->engine.program));
    if (config->durable) PD_TRY(pd_durable_open(s, config->durable, &s->durable));
    int is_first = !job || pd_durable_config_is_first(job, s->config.endpoint);
    if (!atomic_load(&s->job_id) && is_first) PD_TRY(pd_book_set_job(s->book, pd_rng_fresh_seed()));
    PD_TRY(pd_is_closed_job(&s->is_closed));
    const char *const *names = job && job->n_servers ? job->servers : &config->endpoint;
    PD_TRY(pd_control_new(s, job && job->n_servers ? job->n_servers : 1, names, &s->control));
    if (s->order) PD_TRY(pd_order_start(s->order, pd_control_loop(s->control)));
    if (s->sums) pd_sums_start(s->sums, pd_control_loop(s->control));
    PD_TRY(link_others(s));
    int port;
    PD_TRY(pd_listener_open(pd_control_loop(s->control), s->config.endpoint, s->config.job, &listener_events,
                            s, &port, &s->listener));
    atomic_store(&s->port, port);
    char whose[48];
    snprintf(whose, sizeof whose, "%d trainers", s->config.trainers);
    pd_listener_expect(s->listener, s->config.trainers * s->n_lanes + s->config.servers - 1, whose);
    /* Not before the port is ours: a second server by mistake must leave the first one's book alone. */
    PD_TRY(pd_book_open(s->book, config->durable));
    for (int i = 0; i < s->n_lanes; i++) {
        char name[32];
        snprintf(name, sizeof name, "ps-loop-%d", i);
        pd_loop_spin_for(s->lanes[i].loop, processes_of(s));
        PD_TRY(pd_loop_start(s->lanes[i].loop, name));
    }
    PD_TRY(pd_loop_start(pd_control_loop(s->control), "ps-control"));
    pd_watch_serves(s->watch);
    return PD_OK;
}

pd_status pd_server_start(const struct pd_engine *engine, const struct pd_server_config *config,
                          struct pd_server **out)
{
    struct pd_server *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    pd_cond_init(&s->changed);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->engine_lock, NULL);
    s->engine = *engine;
    s->incarnation = pd_rng_fresh_seed();
    s->calls_as = pd_rng_fresh_seed() | 1;
    s->saves = pd_part_first_save(pd_rng_fresh_seed());
    pd_status status = copy_config(s, config);
    int loops = choose_loops(engine, config);
    if (status == PD_OK && config->prepare_block < 0)
        status = pd_durable_loops(config->durable, config->endpoint, config->loops, &loops);
    s->lanes = pd_calloc((size_t)loops, sizeof *s->lanes);
    if (status == PD_OK && !s->lanes) status = pd_no_memory();
    if (status == PD_OK) status = pd_book_new(s, &s->book);
    s->n_lanes = s->lanes ? loops : 0;
    if (status == PD_OK) status = pd_watch_open(s, config->http, &s->watch);
    if (status == PD_OK) status = start(s, config);
    if (status != PD_OK) {
        pd_server_free(s);
        return status;
    }
    pd_log(PD_LOG_INFO, "Server listening on %s selected port: %d", s->config.endpoint, pd_server_port(s));
    *out = s;
    return PD_OK;
}

int pd_server_port(const struct pd_server *server)
{
    return atomic_load(&server->port);
}

uint64_t pd_server_step(const struct pd_server *s)
{
    return atomic_load(&s->step);
}

void pd_server_set_step(struct pd_server *s, uint64_t step)
{
    uint64_t before = atomic_load(&s->step);
    while (before < step && !atomic_compare_exchange_weak(&s->step, &before, step))
        ;
}

void pd_server_wake(struct pd_server *s)
{
    PD_HOLD(&s->lock);
    s->wakes = 1;
    pthread_cond_broadcast(&s->changed);
}

/* ---- lanes that stand still ---- */

static void stand_still(void *arg)
{
    struct pd_server *s = ((struct lane *)arg)->server;
    PD_HOLD(&s->lock);
    s->stopped++;
    pthread_cond_broadcast(&s->changed);
    while (s->stops)
        pthread_cond_wait(&s->changed, &s->lock);
    s->stopped--;
}

/* Lanes go on; those that have not come to a stop yet will not stop. */
static void go_on(struct pd_server *s)
{
    PD_HOLD(&s->lock);
    s->stops = 0;
    pthread_cond_broadcast(&s->changed);
}

enum { STAND_MS = 100 };

int pd_server_stopped(struct pd_server *s, void (*fn)(void *arg), void *arg)
{
    int64_t until = pd_clock_ns() + (int64_t)STAND_MS * 1000000;
    if (!s->stops) { /* set by this thread only */
        pthread_mutex_lock(&s->lock);
        s->stops = 1;
        pthread_mutex_unlock(&s->lock);
        for (int i = 0; i < s->n_lanes; i++)
            if (pd_loop_post(s->lanes[i].loop, stand_still, &s->lanes[i]) != PD_OK) {
                go_on(s);
                return 0;
            }
    }
    pthread_mutex_lock(&s->lock);
    while (s->stopped < s->n_lanes && pd_clock_ns() < until)
        pd_cond_wait_ms(&s->changed, &s->lock, STAND_MS);
    int all_stand = s->stopped == s->n_lanes;
    pthread_mutex_unlock(&s->lock);
    if (all_stand) fn(arg);
    if (all_stand || is_held(s)) go_on(s);
    return all_stand;
}

/* ---- the main thread ---- */

/* Waits up to 100 ms for something to do. The end of a child wakes nobody. */
static void doze(struct pd_server *s)
{
    int ms = pd_durable_is_waited_for(s->durable) ? 2 : 100;
    PD_HOLD(&s->lock);
    if (!s->wakes && !s->failed && s->lanes_finished < s->n_lanes) pd_cond_wait_ms(&s->changed, &s->lock, ms);
    s->wakes = 0;
}

static int is_over(struct pd_server *s)
{
    PD_HOLD(&s->lock);
    return s->failed || s->lanes_finished == s->n_lanes;
}

/* SIGTERM: the trainers bring the step to its end, which is the last snapshot's; they wait for the server's
 * return. When they do not, because steps are long or they are gone too, it is that of the step before. */
enum { DRAIN_MS = 10000, ALONE_MS = 1000 };

static pd_status drain(struct pd_server *s)
{
    int64_t now = pd_clock_ns(), until = now + (int64_t)DRAIN_MS * 1000000, seen = now;
    pd_log(PD_LOG_INFO, "asked to end (by a signal) at step %llu", (unsigned long long)pd_server_step(s));
    s->draining = 1;
    for (int begun = 0; !begun;) {
        pd_durable_end_soon(s->durable, &begun);
        PD_TRY(pd_engine_poll(&s->engine));
        if (is_over(s) || is_held(s)) return PD_OK;
    }
    while (!is_over(s) && !pd_durable_is_idle(s->durable) && now < until &&
           now - seen < (int64_t)ALONE_MS * 1000000) {
        doze(s);
        pd_durable_tend(s->durable);
        PD_TRY(pd_engine_poll(&s->engine));
        now = pd_clock_ns();
        if (pd_book_connections(s->book) > 0) seen = now;
    }
    return PD_OK;
}

static void nap(struct pd_server *s, int ms)
{
    PD_HOLD(&s->lock);
    pd_cond_wait_ms(&s->changed, &s->lock, ms);
}

/* Last words reach the trainers before the connections go. */
enum { LAST_WORDS_MS = 1000 };

static void hang_up(struct pd_server *s)
{
    int64_t until = pd_clock_ns() + (int64_t)LAST_WORDS_MS * 1000000;
    while (pd_book_connections(s->book) > 0 && pd_clock_ns() < until)
        nap(s, 20);
}

/* The first server would wait for this one, which has ended, if it did not know. */
static void be_heard(struct pd_server *s)
{
    int64_t until = pd_clock_ns() + (int64_t)LAST_WORDS_MS * 1000000;
    while (!pd_order_is_heard(s->order) && pd_clock_ns() < until)
        nap(s, 20);
}

static int is_finished(struct pd_server *s)
{
    PD_HOLD(&s->lock);
    return !s->failed && s->lanes_finished == s->n_lanes;
}

/* All trainers have ended, and another server was away then: it would wait for them, and for this one, which
 * alone can tell it. Where none has come since this server was started, the others were told before; and
 * where all have failed, there is nothing to wait for. */
static pd_status tell_others(struct pd_server *s)
{
    struct pd_patience patience = pd_patience_start(s->config.notice_ms, s->config.deadline_ms);
    char who[800];
    if (!pd_book_has_met(s->book) || !pd_book_has_done(s->book)) return PD_OK;
    while (!pd_order_all_told(s->order, who, sizeof who)) {
        enum pd_patience_now now = pd_patience_ask(&patience);
        if (now != PD_WAIT_ON)
            pd_log(PD_LOG_WARNING, "all trainers have ended, and %s has not come to hear it%s", who,
                   now == PD_WAIT_GIVE_UP ? ": ended without it" : "");
        if (now == PD_WAIT_GIVE_UP || (s->config.wants_end && s->config.wants_end())) break;
        nap(s, 50);
        pd_durable_tend(s->durable);
        PD_TRY(pd_engine_poll(&s->engine));
    }
    return PD_OK;
}

pd_status pd_server_wait(struct pd_server *s)
{
    while (!is_over(s) && !s->draining) {
        doze(s);
        pd_durable_tend(s->durable);
        tell_of_saves(s);
        pd_status status = pd_engine_poll(&s->engine);
        if (status == PD_OK && s->config.wants_end && s->config.wants_end()) status = drain(s);
        if (status == PD_OK && pd_book_all_left(s->book) && pd_durable_is_given_up(s->durable))
            status = pd_fail(PD_IO,
                             "all trainers have ended, and the disk does not answer (FLAGS_rpc_deadline is "
                             "%d ms): ended without a last snapshot",
                             s->config.deadline_ms);
        if (status == PD_OK && is_finished(s)) status = tell_others(s);
        if (status != PD_OK) pd_durable_break_off(s->durable);
        PD_TRY(status);
    }
    go_on(s);
    if (is_finished(s)) be_heard(s);
    if (is_over(s)) hang_up(s);
    if (!s->draining && !is_finished(s)) return pd_fail(s->failure, "%s", s->failure_text);
    if (is_over(s) && !is_finished(s)) pd_log(PD_LOG_WARNING, "%s", s->failure_text);
    if (is_held(s) || !stop_loops(s))
        return pd_fail(
            PD_IO,
            "the disk does not answer: ended without a last snapshot; what was acknowledged is in the log");
    int finished = is_finished(s);
    pd_status status = pd_durable_last(s->durable);
    pd_book_close(s->book, finished && status == PD_OK);
    if (status == PD_OK && finished && !s->draining && !pd_book_has_done(s->book))
        status =
            pd_fail(PD_UNAVAILABLE, "no trainer of this job has done its work: all failed or were lost%s%s",
                    *pd_book_last_loss(s->book) ? ", the last: " : "", pd_book_last_loss(s->book));
    if (finished && status == PD_OK)
        pd_log(PD_LOG_INFO,
               "the job is done after step %llu: all trainers have ended, and so does this server",
               (unsigned long long)pd_server_step(s));
    return status;
}

/* ---- failure ---- */

/* On each loop: tells its trainers, then hangs up. */
static void tell_failure(void *arg)
{
    struct lane *lane = arg;
    for (int i = lane->sessions.n - 1; i >= 0; i--)
        pd_session_fail(lane->sessions.at[i], 0, lane->server->failure, lane->server->failure_text);
}

void pd_server_fail(struct pd_server *s, pd_status status)
{
    PD_HOLD(&s->lock);
    int first = !s->failed;
    if (first) {
        s->failed = 1;
        s->failure = status;
        snprintf(s->failure_text, sizeof s->failure_text, "%s", pd_error());
        pthread_cond_signal(&s->changed);
    }
    /* Loops that end take no posts, and are gone soon. */
    for (int i = 0; first && !s->ending && i < s->n_lanes; i++)
        pd_loop_post(s->lanes[i].loop, tell_failure, &s->lanes[i]);
}
