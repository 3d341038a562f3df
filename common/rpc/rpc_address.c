/*
 * rpc_address.c — addresses that people write: are they any, and in the form that gRPC wants.
 *
 * Nothing here asks the network. What gRPC would take for something else (a scheme, a name with a
 * space, an IPv6 address without brackets) is refused with the way to write it.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <sys/un.h>

#include "base/assert.h"
#include "rpc/rpc_impl.h"

#define UNIX_PREFIX  "unix:"
#define PATH_ROOM    sizeof(((struct sockaddr_un *)NULL)->sun_path) /* The final 0 included. */
#define PORT_EXAMPLE "7070"

bool ps_rpc_address_is_unix(const char *address)
{
    return strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
}

const char *ps_rpc_address_path(const char *address)
{
    return address + strlen(UNIX_PREFIX);
}

/* ---- Hosts --------------------------------------------------------------------------------- */

static bool is_ipv4(const char *host)
{
    struct in_addr number;
    return inet_pton(AF_INET, host, &number) == 1;
}

/* With or without a scope: fe80::1%eth0. */
static bool is_ipv6(const char *host)
{
    char text[PS_ADDRESS_BYTES_MAX + 1];
    struct in6_addr number;
    (void)snprintf(text, sizeof(text), "%s", host);
    char *scope = strchr(text, '%');
    if (scope != NULL) {
        if (scope[1] == '\0') {
            return false;
        }
        *scope = '\0';
    }
    return inet_pton(AF_INET6, text, &number) == 1;
}

/* Link-local, and no interface is named. */
static bool needs_scope(const char *host)
{
    struct in6_addr number;
    return inet_pton(AF_INET6, host, &number) == 1 && IN6_IS_ADDR_LINKLOCAL(&number);
}

static bool is_any(const char *host)
{
    struct in6_addr number;
    struct in_addr short_number;
    if (inet_pton(AF_INET6, host, &number) == 1) {
        return IN6_IS_ADDR_UNSPECIFIED(&number);
    }
    return inet_pton(AF_INET, host, &short_number) == 1 && short_number.s_addr == INADDR_ANY;
}

bool ps_rpc_address_split(const char *address, struct ps_rpc_host_port *ret)
{
    const char *colon = strrchr(address, ':');
    if (strlen(address) > PS_ADDRESS_BYTES_MAX || colon == NULL || colon[1] == '\0' ||
        strlen(colon + 1) > 5 || strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        return false;
    }
    (void)snprintf(ret->port, sizeof(ret->port), "%s", colon + 1);
    size_t n_bytes = (size_t)(colon - address);
    ret->brackets = n_bytes >= 2 && address[0] == '[' && address[n_bytes - 1] == ']';
    if (ret->brackets) {
        address++;
        n_bytes -= 2;
    }
    (void)snprintf(ret->host, sizeof(ret->host), "%.*s", (int)n_bytes, address);
    return true;
}

bool ps_rpc_address_is_any(const char *address)
{
    struct ps_rpc_host_port at;
    return !ps_rpc_address_is_unix(address) && ps_rpc_address_split(address, &at) &&
           is_any(at.host);
}

/* ---- Checking ------------------------------------------------------------------------------ */

static enum ps_status check_path(const char *path, struct ps_error *err)
{
    if (path[0] != '/') {
        return ps_fail(err, PS_ERR_INVALID,
                       "the path of a unix socket starts with a slash: "
                       "write unix:/path");
    }
    return strlen(path) < PATH_ROOM ? PS_OK
                                    : ps_fail(err, PS_ERR_INVALID,
                                              "the path of a unix socket has at most %zu bytes, "
                                              "not %zu",
                                              PATH_ROOM - 1, strlen(path));
}

/* What looks like a URL or one of gRPC's targets; "dns:7070" is a host called dns. */
static enum ps_status check_scheme(const char *address, struct ps_error *err)
{
    static const char *const schemes[] = {"dns",  "ipv4",  "ipv6", "unix-abstract", "vsock",
                                          "http", "https", "grpc", "grpcs",         "tcp"};
    const char *rest = strstr(address, "://");
    rest = rest != NULL ? rest + strlen("://") : NULL;
    for (size_t i = 0; rest == NULL && i < PS_ARRAY_LEN(schemes); i++) {
        size_t n = strlen(schemes[i]);
        if (strncmp(address, schemes[i], n) == 0 && address[n] == ':' &&
            isdigit((unsigned char)address[n + 1]) == 0) {
            rest = address + n + 1;
        }
    }
    if (rest == NULL) {
        return PS_OK;
    }
    rest += strspn(rest, "/");
    if (rest[0] == '\0') {
        rest = "HOST:PORT";
    }
    return ps_fail(err, PS_ERR_INVALID, "leave the scheme away: write %.*s",
                   (int)strcspn(rest, "/"), rest);
}

static enum ps_status check_bytes(const char *address, struct ps_error *err)
{
    size_t n_bytes = strlen(address);
    if (n_bytes == 0) {
        return ps_fail(err, PS_ERR_INVALID, "the address is empty: write HOST:PORT");
    }
    if (n_bytes > PS_ADDRESS_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "an address has at most %u bytes, not %zu",
                       PS_ADDRESS_BYTES_MAX, n_bytes);
    }
    for (size_t i = 0; i < n_bytes; i++) {
        if (isspace((unsigned char)address[i]) != 0 || iscntrl((unsigned char)address[i]) != 0) {
            return ps_fail(err, PS_ERR_INVALID, "an address has no white space in it");
        }
    }
    return strchr(address, ',') == NULL || ps_rpc_address_is_unix(address)
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID,
                         "a list is not possible: name one address, HOST:PORT");
}

/* More than one colon and no brackets: IPv6, with a port or without one. */
static enum ps_status explain_colons(const char *address, struct ps_error *err)
{
    struct ps_rpc_host_port at;
    if (ps_rpc_address_split(address, &at) && is_ipv6(at.host)) {
        return ps_fail(err, PS_ERR_INVALID, "IPv6 stands in brackets: write [%s]:%s", at.host,
                       at.port);
    }
    if (is_ipv6(address)) {
        return ps_fail(err, PS_ERR_INVALID, "no port is given: write [%s]:" PORT_EXAMPLE, address);
    }
    return ps_fail(err, PS_ERR_INVALID, "too many colons: write HOST:PORT, or [IPV6]:PORT");
}

/* Where the port is concerned. */
static enum ps_status check_port(const char *address, enum ps_rpc_address_use use,
                                 struct ps_error *err)
{
    size_t n_bytes = strlen(address);
    const char *colon = strrchr(address, ':');
    if (address[0] == '[' && strchr(address, ']') == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "a bracket is not closed: write [IPV6]:PORT");
    }
    if (colon == NULL || (address[0] == '[' && address[n_bytes - 1] == ']')) {
        return ps_fail(err, PS_ERR_INVALID, "no port is given: write %s:" PORT_EXAMPLE, address);
    }
    if (address[0] != '[' && strchr(address, ':') != colon) {
        return explain_colons(address, err);
    }
    const char *port = colon + 1;
    if (port[0] == '\0') {
        return ps_fail(err, PS_ERR_INVALID, "no port is given: write %s" PORT_EXAMPLE, address);
    }
    if (strspn(port, "0123456789") != strlen(port)) {
        return ps_fail(err, PS_ERR_INVALID, "'%s' is no port: write a number", port);
    }
    unsigned long number = strtoul(port, NULL, 10); /* Saturates. */
    if (number > UINT16_MAX || strlen(port) > 5) {
        return ps_fail(err, PS_ERR_INVALID, "there is no port %s: 65535 is the last", port);
    }
    return number > 0 || use != PS_RPC_TO_DIAL
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID,
                         "port 0 cannot be dialled: write the port that is served");
}

static enum ps_status check_host(const struct ps_rpc_host_port *at, enum ps_rpc_address_use use,
                                 struct ps_error *err)
{
    static const char name_bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789._-";
    const char *host = at->host;
    if (host[0] == '\0') {
        return ps_fail(err, PS_ERR_INVALID, "no host is given: write %s:%s",
                       use == PS_RPC_TO_LISTEN ? "0.0.0.0" : "127.0.0.1", at->port);
    }
    if (at->brackets) {
        if (!is_ipv6(host)) {
            return ps_fail(err, PS_ERR_INVALID, "'%s' is no IPv6 address", host);
        }
        if (needs_scope(host)) {
            return ps_fail(err, PS_ERR_INVALID,
                           "%s is another one on each interface: write [%s%%eth0]:%s, or whichever",
                           host, host, at->port);
        }
    } else if (host[strspn(host, name_bytes)] != '\0') {
        return ps_fail(err, PS_ERR_INVALID, "'%s' is no name of a host", host);
    } else if (strspn(host, "0123456789.") == strlen(host) && !is_ipv4(host)) {
        return ps_fail(err, PS_ERR_INVALID, "'%s' is no IPv4 address", host);
    }
    return use == PS_RPC_TO_LISTEN || !is_any(host)
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID,
                         "%s is every address of a machine and cannot be dialled: name one", host);
}

enum ps_status ps_rpc_address_check(const char *address, enum ps_rpc_address_use use,
                                    struct ps_error *err)
{
    enum ps_status status = check_bytes(address, err);
    if (status != PS_OK) {
        return status;
    }
    if (ps_rpc_address_is_unix(address)) {
        return check_path(ps_rpc_address_path(address), err);
    }
    status = check_scheme(address, err);
    if (status == PS_OK) {
        status = check_port(address, use, err);
    }
    if (status != PS_OK) {
        return status;
    }
    struct ps_rpc_host_port at;
    bool whole = ps_rpc_address_split(address, &at);
    PS_ASSERT(whole); /* check_port is stricter. */
    return check_host(&at, use, err);
}

/* ---- For gRPC ------------------------------------------------------------------------------ */

void ps_rpc_address_target(const char *address, char *ret, size_t n_bytes)
{
    struct ps_rpc_host_port at;
    struct in6_addr number;
    const char *scheme = "";
    if (!ps_rpc_address_is_unix(address) && ps_rpc_address_split(address, &at)) {
        if (is_ipv4(at.host)) {
            scheme = "ipv4:";
        } else if (inet_pton(AF_INET6, at.host, &number) == 1) {
            scheme = "ipv6:"; /* One with a scope is understood without it only. */
        }
    }
    (void)snprintf(ret, n_bytes, "%s%s", scheme, address);
}

bool ps_rpc_address_served(const char *address, int port, char *ret, size_t n_bytes)
{
    struct ps_rpc_host_port at;
    int n = 0;
    if (ps_rpc_address_is_unix(address) || !ps_rpc_address_split(address, &at)) {
        n = snprintf(ret, n_bytes, "%s", address);
    } else if (is_any(at.host)) {
        n = snprintf(ret, n_bytes, "127.0.0.1:%d", port); /* gRPC serves both families then. */
    } else {
        n = snprintf(ret, n_bytes, at.brackets ? "[%s]:%d" : "%s:%d", at.host, port);
    }
    return n >= 0 && (size_t)n < n_bytes;
}
