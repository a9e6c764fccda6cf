/* Workers that deal out their samples among each other, in the public API. */
#include "api/api.h"
#include "base/error.h"
#include "data/deal.h"

#if PD_WITH_DISTRIBUTE
#include "base/flags.h"
#include "net/peers.h"

struct deal {
    struct pd_deal *deal;
    struct pd_peers *peers;
};

pd_status pd_peers_create(const char *address, int worker, int workers, uint64_t token, pd_peers **out,
                          int *port)
{
    PD_TRY(pd_flag_verify());
    if (workers < 2 || worker < 0 || worker >= workers)
        return pd_fail(PD_INVALID, "worker %d of %d has nobody to deal with", worker, workers);
    return pd_peers_listen(address, worker, workers, token, out, port);
}

void pd_peers_release(pd_peers *peers)
{
    pd_peers_free(peers);
}

static pd_status take(void *arg, int from, struct pd_buf *piece)
{
    const struct deal *d = arg;
    return pd_deal_take(d->deal, from, piece);
}

static pd_status give(void *arg, int to, struct pd_buf *piece)
{
    const struct deal *d = arg;
    return pd_peers_give(d->peers, to, piece);
}

static pd_status finish(void *arg)
{
    const struct deal *d = arg;
    return pd_peers_finish(d->peers);
}

static pd_status run(pd_dataset *dataset, const pd_deal_options *o)
{
    struct deal d = {.peers = o->peers};
    struct pd_deal_spec spec = {
        .self = o->worker, .n = o->workers, .counts = o->counts, .seed = o->seed, .by_id = o->by_id};
    struct pd_peers_use use = {
        .endpoints = o->endpoints, .take = take, .take_arg = &d, .poll = o->poll, .poll_arg = o->arg};
    struct pd_deal_way way = {give, finish, &d};
    PD_TRY(pd_deal_begin(dataset, &spec, &d.deal));
    pd_status status = pd_peers_connect(o->peers, &use);
    if (status == PD_OK) status = pd_deal_run(d.deal, &way);
    pd_deal_free(d.deal);
    return status;
}

pd_status pd_dataset_deal(pd_dataset *dataset, const pd_deal_options *options)
{
    PD_TRY(pd_dataset_change(dataset, "being shuffled", "shuffle it"));
    pd_status status = run(dataset, options);
    pd_dataset_changed(dataset);
    return status;
}
#else
pd_status pd_peers_create(const char *address, int worker, int workers, uint64_t token, pd_peers **out,
                          int *port)
{
    (void)address, (void)worker, (void)workers, (void)token, (void)out, (void)port;
    return pd_fail(
        PD_UNSUPPORTED,
        "samples are not dealt out among workers: this build has no network (WITH_DISTRIBUTE=OFF)");
}

void pd_peers_release(pd_peers *peers)
{
    (void)peers;
}

pd_status pd_dataset_deal(pd_dataset *dataset, const pd_deal_options *options)
{
    (void)dataset, (void)options;
    return pd_peers_create(NULL, 0, 0, 0, NULL, NULL);
}
#endif
