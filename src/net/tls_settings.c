/* What the environment says about TLS; see tls.h. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/tls.h"

enum { CERT, KEY, CA, NAMES };
static const char *const names[NAMES] = {"PADDLE_PS_TLS_CERT", "PADDLE_PS_TLS_KEY", "PADDLE_PS_TLS_CA"};

struct kept {
    struct pd_tls_settings settings;
    struct kept *next;
    char *files[NAMES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *all;

static pd_status bad(int which, const char *file)
{
    char why[200];
    unsigned long code = ERR_get_error();
    ERR_error_string_n(code, why, sizeof why);
    return pd_fail(PD_INVALID, "%s=%s cannot be used: %s", names[which], file, code ? why : "not PEM?");
}

static pd_status make_context(char *const *files, int is_server, SSL_CTX **out)
{
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    pd_status status = context ? PD_OK : pd_no_memory();
    ERR_clear_error();
    if (status == PD_OK) {
        SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_num_tickets(context, 0);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        if (SSL_CTX_use_certificate_chain_file(context, files[CERT]) != 1)
            status = bad(CERT, files[CERT]);
        else if (SSL_CTX_use_PrivateKey_file(context, files[KEY], SSL_FILETYPE_PEM) != 1 ||
                 SSL_CTX_check_private_key(context) != 1)
            status = bad(KEY, files[KEY]);
        else if (SSL_CTX_load_verify_locations(context, files[CA], NULL) != 1)
            status = bad(CA, files[CA]);
    }
    if (status != PD_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *out = context;
    return PD_OK;
}

static pd_status make(const char *const *given, struct kept **out)
{
    struct kept *kept = pd_calloc(1, sizeof *kept);
    pd_status status = kept ? PD_OK : pd_no_memory();
    for (int i = 0; status == PD_OK && i < NAMES; i++)
        if (!(kept->files[i] = pd_strdup(given[i]))) status = pd_no_memory();
    if (status == PD_OK) status = make_context(kept->files, 1, &kept->settings.server);
    if (status == PD_OK) status = make_context(kept->files, 0, &kept->settings.client);
    if (status == PD_OK) {
        *out = kept;
        return PD_OK;
    }
    for (int i = 0; kept && i < NAMES; i++)
        pd_free(kept->files[i]);
    if (kept) SSL_CTX_free(kept->settings.server);
    pd_free(kept);
    return status;
}

static int is_same(const struct kept *kept, const char *const *given)
{
    for (int i = 0; i < NAMES; i++)
        if (strcmp(kept->files[i], given[i]) != 0) return 0;
    return 1;
}

pd_status pd_tls_choose(const struct pd_tls_settings **out)
{
    const char *given[NAMES];
    int set = 0, missing = -1;
    *out = NULL;
    for (int i = 0; i < NAMES; i++) {
        given[i] = getenv(names[i]);
        set += given[i] != NULL;
        if (!given[i] || !*given[i]) missing = i;
    }
    if (!set) return PD_OK;
    if (missing >= 0)
        return pd_fail(
            PD_INVALID,
            "TLS needs %s, %s and %s in every process, and %s is %s: name the file, or unset the others",
            names[CERT], names[KEY], names[CA], names[missing],
            given[missing] ? "set to nothing" : "not set");
    pd_status status = PD_OK;
    pthread_mutex_lock(&lock);
    struct kept *kept = all;
    while (kept && !is_same(kept, given))
        kept = kept->next;
    if (!kept && (status = make(given, &kept)) == PD_OK) {
        kept->next = all;
        all = kept;
    }
    pthread_mutex_unlock(&lock);
    if (status == PD_OK) *out = &kept->settings;
    return status;
}
