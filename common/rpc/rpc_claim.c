/*
 * rpc_claim.c — an address to listen on, tried before gRPC gets it.
 *
 * gRPC would share a port with whoever has it already, or say only "0" when it cannot bind; and it
 * steals the path of a unix socket. So the port is tried first, for the words, and a unix socket
 * has a lock file beside it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <netdb.h>

#include "base/assert.h"
#include "rpc/rpc_impl.h"

#define ROOT_PORTS 1024 /* Below, not everybody may bind. */

static enum ps_status cannot_listen(struct ps_error *err, const char *address, int why)
{
    struct ps_rpc_host_port at;
    bool low = !ps_rpc_address_is_unix(address) && ps_rpc_address_split(address, &at) &&
               strtoul(at.port, NULL, 10) < ROOT_PORTS;
    switch (why) {
    case EADDRINUSE:
        return ps_fail(err, PS_ERR_EXISTS, "cannot listen on %s: address in use", address);
    case EADDRNOTAVAIL:
        return ps_fail(err, PS_ERR_INVALID, "cannot listen on %s: not an address of this machine",
                       address);
    case EACCES:
    case EPERM:
        return ps_fail(err, PS_ERR_DENIED, "cannot listen on %s: permission denied%s", address,
                       low ? ": ports below 1024 are for root" : "");
    case ENOENT:
    case ENOTDIR:
        return ps_fail(err, PS_ERR_INVALID, "cannot listen on %s: there is no such folder",
                       address);
    default:
        return ps_fail(err, PS_ERR_IO, "cannot listen on %s: %s", address, strerrordesc_np(why));
    }
}

/* Bind and let go again; 0 or why not. */
static int try_bind(int family, const struct sockaddr *address, socklen_t n_bytes)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int on = 1;
    int off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* As gRPC does. */
    if (family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    int why = bind(fd, address, n_bytes) == 0 ? 0 : errno;
    (void)close(fd);
    return why;
}

/* Every address of the machine means both families to gRPC, whichever was written. */
static int try_any(const struct addrinfo *found, const char *port)
{
    struct sockaddr_in6 both = {.sin6_family = AF_INET6,
                                .sin6_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                .sin6_addr = in6addr_any};
    int why = try_bind(AF_INET6, (const struct sockaddr *)&both, sizeof(both));
    bool no_ipv6 = why == EAFNOSUPPORT || why == EADDRNOTAVAIL;
    return no_ipv6 ? try_bind(found->ai_family, found->ai_addr, found->ai_addrlen) : why;
}

/* A name may have several addresses, of which this machine need not have all: not IPv6, say. */
static int try_all(const struct addrinfo *found)
{
    int none = EADDRNOTAVAIL;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        int why = try_bind(at->ai_family, at->ai_addr, at->ai_addrlen);
        if (why == 0) {
            none = 0;
        } else if (why != EADDRNOTAVAIL && why != EAFNOSUPPORT) {
            return why;
        }
    }
    return none;
}

static enum ps_status claim_port(const char *address, struct ps_error *err)
{
    struct ps_rpc_host_port at;
    bool whole = ps_rpc_address_split(address, &at);
    PS_ASSERT(whole); /* It has been checked. */
    struct addrinfo hints = {
        .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(at.host, at.port, &hints, &found);
    if (failed != 0) {
        return ps_fail(err, PS_ERR_INVALID, "cannot listen on %s: '%s' does not resolve: %s",
                       address, at.host, gai_strerror(failed));
    }
    int why = ps_rpc_address_is_any(address) ? try_any(found, at.port) : try_all(found);
    freeaddrinfo(found);
    return why == 0 ? PS_OK : cannot_listen(err, address, why);
}

/*
 * Does a socket file lead to nobody? Only then it was left by a server that was killed: other
 * programs have no lock of ours, and theirs must not be taken from under them.
 */
static bool is_stale(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    PS_ASSERT(strlen(path) < sizeof(name.sun_path)); /* It has been checked. */
    memcpy(name.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    bool refused = connect(fd, (const struct sockaddr *)&name, sizeof(name)) != 0 &&
                   (errno == ECONNREFUSED || errno == ENOENT);
    (void)close(fd);
    return refused;
}

static enum ps_status claim_socket_file(const char *address, int *ret_lock_fd, struct ps_error *err)
{
    const char *path = ps_rpc_address_path(address);
    char lock_path[PS_ADDRESS_BYTES_MAX + 8];
    (void)snprintf(lock_path, sizeof(lock_path), "%s.lock", path);
    int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return cannot_listen(err, address, errno);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int why = errno == EWOULDBLOCK ? EADDRINUSE : errno;
        (void)close(fd);
        return cannot_listen(err, address, why);
    }
    struct stat info;
    if (lstat(path, &info) == 0) {
        if (!S_ISSOCK(info.st_mode)) {
            (void)close(fd);
            return ps_fail(err, PS_ERR_EXISTS, "cannot listen on %s: a file is in the way",
                           address);
        }
        if (!is_stale(path)) {
            (void)close(fd);
            return cannot_listen(err, address, EADDRINUSE);
        }
        (void)unlink(path);
    }
    *ret_lock_fd = fd;
    return PS_OK;
}

enum ps_status ps_rpc_address_claim(const char *address, int *ret_lock_fd, struct ps_error *err)
{
    *ret_lock_fd = -1;
    enum ps_status status = ps_rpc_address_check(address, PS_RPC_TO_LISTEN, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "cannot listen on %.100s", address);
    }
    return ps_rpc_address_is_unix(address) ? claim_socket_file(address, ret_lock_fd, err)
                                           : claim_port(address, err);
}

/* The lock file stays: removing it would let two newcomers lock two different files. */
void ps_rpc_address_release(int lock_fd)
{
    if (lock_fd >= 0) {
        (void)close(lock_fd);
    }
}
