/* See endpoint.h. */
#include "net/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/error.h"

static pd_status bad(const char *text, const char *what)
{
    return pd_fail(
        PD_INVALID,
        "'%s' is not an endpoint: %s. Write host:port, as in 192.168.1.2:6174, ps-1:6174 or [::1]:6174", text,
        what);
}

static int read_port(const char *text, int *port)
{
    uint64_t value = 0;
    int n = pd_decimal(text, NULL, 65535, &value);
    *port = (int)value;
    return n && !text[n];
}

pd_status pd_endpoint_parse(const char *text, struct pd_endpoint *out)
{
    struct pd_endpoint result = {0};
    const char *host = text, *host_end, *port;
    if (!text || !*text) return bad("", "it is empty");
    if (strchr(text, ',') || strchr(text, ';')) return bad(text, "it names several; give one");
    if (strstr(text, "://")) return bad(text, "it is a URL");
    if (*text == '[') {
        host = text + 1;
        host_end = strchr(host, ']');
        if (!host_end) return bad(text, "the ']' is missing");
        if (host_end == host) return bad(text, "there is no address between the brackets");
        if (host_end[1] != ':') return bad(text, "after ']' comes ':' and the port");
        port = host_end + 2;
    } else {
        host_end = strrchr(text, ':');
        if (host_end && memchr(text, ':', (size_t)(host_end - text)))
            return bad(text, "an IPv6 address stands in brackets");
        port = host_end ? host_end + 1 : text;
        if (!host_end) host_end = text;
    }
    if (!read_port(port, &result.port)) {
        int is_missing = !*port || (port == text && strspn(text, "0123456789") < strlen(text));
        return bad(text, is_missing ? "the port is missing" : "the port is a number up to 65535");
    }
    size_t n = (size_t)(host_end - host);
    if (n >= sizeof result.host) return bad("...", "the host's name has more than 255 characters");
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)host[i] <= ' ' || host[i] == 0x7f || host[i] == '/' || host[i] == '[' ||
            host[i] == ']')
            return bad(text, "the host's name holds a character that no name has");
    memcpy(result.host, host, n);
    *out = result;
    return PD_OK;
}

pd_status pd_endpoint_to_bind(const char *endpoint, struct pd_endpoint *out)
{
    struct pd_endpoint named;
    char whole[300];
    const char *bind = getenv("PADDLE_PS_BIND");
    PD_TRY(pd_endpoint_parse(endpoint, &named));
    *out = named;
    if (!bind || !*bind) return PD_OK;
    const char *colon = strchr(bind, ':');
    int is_six = *bind != '[' && colon && strchr(colon + 1, ':'); /* an address of IPv6 and no port */
    int has_port = !is_six && (*bind == '[' ? strstr(bind, "]:") != NULL : colon != NULL);
    if (has_port)
        snprintf(whole, sizeof whole, "%s", bind);
    else
        snprintf(whole, sizeof whole, is_six ? "[%s]:%d" : "%s:%d", bind, named.port);
    if (pd_endpoint_parse(whole, out) != PD_OK)
        return pd_fail(PD_INVALID,
                       "PADDLE_PS_BIND is '%s': name the address at which this server listens, as in "
                       "0.0.0.0, 10.0.0.1:7000 or [::]",
                       bind);
    return PD_OK;
}

/* The wildcard addresses: one socket of IPv6 takes IPv4 too; IPv4 alone comes second, for machines without
 * IPv6. */
static void wildcards(int port, int cap, struct sockaddr_storage *out, socklen_t *lengths, int *n)
{
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    *n = 0;
    if (*n < cap) {
        memcpy(&out[*n], &six, sizeof six);
        lengths[(*n)++] = sizeof six;
    }
    if (*n < cap) {
        memcpy(&out[*n], &four, sizeof four);
        lengths[(*n)++] = sizeof four;
    }
}

static const char *host_of(const struct pd_endpoint *endpoint)
{
    return endpoint->host[0] ? endpoint->host : "localhost";
}

/* Returns getaddrinfo's code. */
static int look_up(const struct pd_endpoint *endpoint, int flags, int cap, struct sockaddr_storage *out,
                   socklen_t *lengths, int *n)
{
    char port[16];
    struct addrinfo *list = NULL;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    snprintf(port, sizeof port, "%d", endpoint->port);
    int rc = getaddrinfo(host_of(endpoint), port, &hints, &list);
    if (rc) return rc;
    *n = 0;
    for (struct addrinfo *a = list; a && *n < cap; a = a->ai_next)
        if (a->ai_addrlen <= sizeof *out && (a->ai_family == AF_INET || a->ai_family == AF_INET6)) {
            int is_known = 0; /* /etc/hosts may name it twice */
            for (int i = 0; i < *n; i++)
                is_known |= lengths[i] == a->ai_addrlen && memcmp(&out[i], a->ai_addr, a->ai_addrlen) == 0;
            if (is_known) continue;
            memcpy(&out[*n], a->ai_addr, a->ai_addrlen);
            lengths[(*n)++] = a->ai_addrlen;
        }
    freeaddrinfo(list);
    return 0;
}

pd_status pd_endpoint_resolve(const struct pd_endpoint *endpoint, int to_bind, int cap,
                              struct sockaddr_storage *out, socklen_t *lengths, int *n)
{
    if (!endpoint->host[0] && to_bind) {
        wildcards(endpoint->port, cap, out, lengths, n);
        return PD_OK;
    }
    const char *host = host_of(endpoint);
    int rc = look_up(endpoint, 0, cap, out, lengths, n);
    if (rc == EAI_MEMORY) return pd_no_memory();
    if (rc == EAI_NONAME || rc == EAI_AGAIN || rc == EAI_FAIL || rc == EAI_NODATA)
        return pd_fail(PD_NOT_FOUND,
                       "the name '%s' is not known (%s): check how it is written, /etc/hosts and DNS", host,
                       gai_strerror(rc));
    if (rc)
        return pd_fail(PD_NOT_FOUND, "the name '%s' cannot be looked up: %s", host,
                       rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    if (*n == 0) return pd_fail(PD_NOT_FOUND, "the name '%s' has neither an IPv4 nor an IPv6 address", host);
    return PD_OK;
}

int pd_endpoint_is_numeric(const struct pd_endpoint *endpoint, int cap, struct sockaddr_storage *out,
                           socklen_t *lengths, int *n)
{
    return endpoint->host[0] && look_up(endpoint, AI_NUMERICHOST, cap, out, lengths, n) == 0 && *n > 0;
}

const char *pd_endpoint_map(const char *endpoint, char *out, size_t cap)
{
    const char *entry = getenv("PADDLE_PS_MAP");
    size_t n = strlen(endpoint);
    while (entry && *entry) {
        size_t length = strcspn(entry, ",");
        if (length > n + 1 && strncmp(entry, endpoint, n) == 0 && entry[n] == '=' && length - n - 1 < cap) {
            snprintf(out, cap, "%.*s", (int)(length - n - 1), entry + n + 1);
            return out;
        }
        entry += length + (entry[length] == ',');
    }
    return endpoint;
}

static pd_status check_entry(const char *entry, size_t length)
{
    struct pd_endpoint unused;
    char text[600];
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), entry);
    char *to = strchr(text, '=');
    if (to) *to++ = 0;
    if (to && length < sizeof text && pd_endpoint_parse(text, &unused) == PD_OK &&
        pd_endpoint_parse(to, &unused) == PD_OK)
        return PD_OK;
    return pd_fail(PD_INVALID,
                   "PADDLE_PS_MAP has the entry '%.*s': write each as HOST:PORT=HOST:PORT (of the Program, "
                   "then where to connect to), with commas between",
                   (int)(length < 300 ? length : 300), entry);
}

pd_status pd_endpoint_check_map(void)
{
    const char *entry = getenv("PADDLE_PS_MAP");
    while (entry && *entry) {
        size_t length = strcspn(entry, ",");
        if (length) PD_TRY(check_entry(entry, length));
        entry += length + (entry[length] == ',');
    }
    return PD_OK;
}

const char *pd_endpoint_text(const struct sockaddr *address, char *out, size_t cap)
{
    char host[INET6_ADDRSTRLEN] = "?", zone[IF_NAMESIZE + 1] = "";
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)address;
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
        snprintf(out, cap, "%s:%d", host, ntohs(four->sin_port));
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)address;
        if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
            inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], host, sizeof host);
            snprintf(out, cap, "%s:%d", host, ntohs(six->sin6_port));
            return out;
        }
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
        if (six->sin6_scope_id) {
            zone[0] = '%';
            if (!if_indextoname(six->sin6_scope_id, zone + 1)) zone[0] = 0;
        }
        snprintf(out, cap, "[%s%s]:%d", host, zone, ntohs(six->sin6_port));
    } else {
        snprintf(out, cap, "an unknown address");
    }
    return out;
}

/* IPv4 inside IPv6 is IPv4. */
static int as_v4(const struct sockaddr_storage *a, uint32_t *out)
{
    if (a->ss_family == AF_INET) {
        *out = ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr;
        return 1;
    }
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(six)) return 0;
    memcpy(out, six->s6_addr + 12, sizeof *out);
    return 1;
}

int pd_endpoint_is_loopback(const struct sockaddr_storage *a)
{
    uint32_t four;
    if (as_v4(a, &four)) return ntohl(four) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

int pd_endpoint_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    uint32_t x, y;
    if (pd_endpoint_is_loopback(a) && pd_endpoint_is_loopback(b)) return 1;
    int a4 = as_v4(a, &x), b4 = as_v4(b, &y);
    if (a4 || b4) return a4 && b4 && x == y;
    return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}
