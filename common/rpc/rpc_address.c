/*
 * rpc_address.c — addresses that people write, made fit for gRPC.
 *
 * gRPC would share a port with whoever has it already, or say only "0" when it cannot bind; and it
 * steals the path of a unix socket. So the port is tried first, for the words, and a unix socket
 * has a lock file beside it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <netdb.h>

#include "rpc/rpc_impl.h"

#define UNIX_PREFIX "unix:"

static bool is_unix(const char *address)
{
    return strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
}

/* host:port or [host]:port into two strings; false when there is no port. */
static bool split(const char *address, char host[PS_ADDRESS_BYTES_MAX + 1], char port[6])
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || strlen(colon + 1) > 5 || colon[1] == '\0' ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        return false;
    }
    (void)snprintf(port, 6, "%s", colon + 1);
    size_t n_bytes = (size_t)(colon - address);
    if (n_bytes >= 2 && address[0] == '[' && address[n_bytes - 1] == ']') {
        address++;
        n_bytes -= 2;
    }
    (void)snprintf(host, PS_ADDRESS_BYTES_MAX + 1, "%.*s", (int)n_bytes, address);
    return true;
}

void ps_rpc_address_target(const char *address, char *ret, size_t n_bytes)
{
    char host[PS_ADDRESS_BYTES_MAX + 1];
    char port[6];
    struct in6_addr number;
    const char *scheme = "";
    if (!is_unix(address) && split(address, host, port)) {
        if (inet_pton(AF_INET, host, &number) == 1) {
            scheme = "ipv4:";
        } else if (inet_pton(AF_INET6, host, &number) == 1) {
            scheme = "ipv6:";
        }
    }
    (void)snprintf(ret, n_bytes, "%s%s", scheme, address);
}

static enum ps_status cannot_listen(struct ps_error *err, const char *address, int why)
{
    switch (why) {
    case EADDRINUSE:
        return ps_fail(err, PS_ERR_EXISTS, "cannot listen on %s: address in use", address);
    case EADDRNOTAVAIL:
        return ps_fail(err, PS_ERR_INVALID, "cannot listen on %s: not an address of this machine",
                       address);
    case EACCES:
        return ps_fail(err, PS_ERR_DENIED, "cannot listen on %s: permission denied", address);
    default:
        return ps_fail(err, PS_ERR_IO, "cannot listen on %s: %s", address, strerrordesc_np(why));
    }
}

/* Bind and let go again; 0 or why not. */
static int try_bind(const struct addrinfo *info)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno == EAFNOSUPPORT ? 0 : errno; /* gRPC finds another family. */
    }
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* As gRPC does. */
    int why = bind(fd, info->ai_addr, info->ai_addrlen) == 0 ? 0 : errno;
    (void)close(fd);
    return why;
}

static enum ps_status claim_port(const char *address, struct ps_error *err)
{
    char host[PS_ADDRESS_BYTES_MAX + 1];
    char port[6];
    if (!split(address, host, port) || strtoul(port, NULL, 10) > UINT16_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "cannot listen on %s: not host:port with a port of 0 to 65535", address);
    }
    struct addrinfo hints = {
        .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, &found);
    if (failed != 0) {
        return ps_fail(err, PS_ERR_INVALID, "cannot listen on %s: %s", address,
                       gai_strerror(failed));
    }
    int why = try_bind(found);
    freeaddrinfo(found);
    return why == 0 ? PS_OK : cannot_listen(err, address, why);
}

static enum ps_status claim_socket_file(const char *address, int *ret_lock_fd, struct ps_error *err)
{
    const char *path = address + strlen(UNIX_PREFIX);
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
        (void)unlink(path); /* Left by a server that was killed: its lock is gone. */
    }
    *ret_lock_fd = fd;
    return PS_OK;
}

enum ps_status ps_rpc_address_claim(const char *address, int *ret_lock_fd, struct ps_error *err)
{
    *ret_lock_fd = -1;
    if (strlen(address) > PS_ADDRESS_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "address is longer than %u bytes",
                       PS_ADDRESS_BYTES_MAX);
    }
    return is_unix(address) ? claim_socket_file(address, ret_lock_fd, err)
                            : claim_port(address, err);
}

/* The lock file stays: removing it would let two newcomers lock two different files. */
void ps_rpc_address_release(int lock_fd)
{
    if (lock_fd >= 0) {
        (void)close(lock_fd);
    }
}
