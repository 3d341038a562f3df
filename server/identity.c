/* identity.c — see identity.h. */
#include "identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "num/checksum.h"

#define HEAD       "parameter server 1\n" /* Of the text's layout. */
#define TEXT_BYTES 256u

/* The whole text; what is read must be exactly this, so that every changed bit is seen. */
static size_t make_text(const struct ps_identity *identity, char text[TEXT_BYTES])
{
    char server[PS_ID_TEXT_BYTES];
    char cluster[PS_ID_TEXT_BYTES];
    ps_id_text(&identity->server, server);
    ps_id_text(&identity->cluster, cluster);
    int n = snprintf(text, TEXT_BYTES,
                     HEAD "server %s\ncluster %s\nindex %" PRIu32 "\ngeneration %" PRIu64
                          "\nbegin %" PRIu64 "\n",
                     server, cluster, identity->index, identity->generation, identity->begin);
    PS_ASSERT(n > 0 && (size_t)n < TEXT_BYTES);
    char sum[PS_CHECKSUM128_TEXT_BYTES];
    ps_checksum128_text(ps_checksum128(text, (size_t)n), sum);
    int n_sum = snprintf(text + n, TEXT_BYTES - (size_t)n, "xxh3 %s\n", sum);
    PS_ASSERT(n_sum > 0 && (size_t)n + (size_t)n_sum < TEXT_BYTES);
    return (size_t)n + (size_t)n_sum;
}

/* "name <32 hex digits>\n" @return behind it; NULL: it is something else */
static const char *take_id(const char *at, const char *name, struct ps_id *ret)
{
    size_t n_name = strlen(name);
    char text[PS_ID_TEXT_BYTES] = "";
    if (strncmp(at, name, n_name) != 0 || strlen(at) < n_name + sizeof(text)) {
        return NULL;
    }
    memcpy(text, at + n_name, sizeof(text) - 1);
    const char *end = at + n_name + sizeof(text) - 1;
    return ps_id_parse(text, ret) && *end == '\n' ? end + 1 : NULL;
}

/* "name <digits>\n"; which digits they are is checked with the whole text. */
static const char *take_number(const char *at, const char *name, uint64_t *ret)
{
    size_t n_name = strlen(name);
    if (at == NULL || strncmp(at, name, n_name) != 0) {
        return NULL;
    }
    char *end = NULL;
    *ret = strtoull(at + n_name, &end, 10);
    return *end == '\n' ? end + 1 : NULL;
}

static bool read_text(const char *text, struct ps_identity *ret)
{
    if (strncmp(text, HEAD, sizeof(HEAD) - 1) != 0) {
        return false;
    }
    uint64_t index = 0;
    const char *at = take_id(text + sizeof(HEAD) - 1, "server ", &ret->server);
    at = at != NULL ? take_id(at, "cluster ", &ret->cluster) : NULL;
    at = take_number(at, "index ", &index);
    at = take_number(at, "generation ", &ret->generation);
    at = take_number(at, "begin ", &ret->begin);
    ret->index = (uint32_t)index;
    return at != NULL && index < PS_SERVERS_MAX && !ps_id_none(&ret->server);
}

static size_t first_difference(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] != '\0' && a[n] == b[n]) {
        n++;
    }
    return n;
}

static void make_path(const char *dir, char path[PS_DIR_BYTES_MAX + sizeof("/identity")])
{
    int n = snprintf(path, PS_DIR_BYTES_MAX + sizeof("/identity"), "%s/identity", dir);
    PS_ASSERT(n > 0 && (size_t)n < PS_DIR_BYTES_MAX + sizeof("/identity"));
}

enum ps_status ps_identity_read(struct ps_disk *disk, const char *dir, struct ps_identity *ret,
                                struct ps_error *err)
{
    *ret = (struct ps_identity){0};
    char path[PS_DIR_BYTES_MAX + sizeof("/identity")];
    make_path(dir, path);
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    enum ps_status status = ps_disk_read(disk, path, TEXT_BYTES - 1, &data, &n_bytes, err);
    if (status == PS_ERR_NOT_FOUND) {
        return PS_OK;
    }
    if (status != PS_OK && status != PS_ERR_INVALID) {
        return status;
    }
    char found[TEXT_BYTES] = "";
    char right[TEXT_BYTES] = "";
    if (status == PS_OK && n_bytes > 0) {
        memcpy(found, data, n_bytes);
    }
    ps_mem_free(data);
    bool good = status == PS_OK && read_text(found, ret);
    size_t n_right = good ? make_text(ret, right) : 0;
    if (good && n_bytes == n_right && memcmp(found, right, n_right) == 0) {
        return PS_OK;
    }
    *ret = (struct ps_identity){0};
    return ps_fail(err, PS_ERR_CORRUPT,
                   "%s:%zu: damaged: with it this directory's owner is not known; if all else is "
                   "lost, too, remove the directory",
                   path, good ? first_difference(found, right) : (size_t)0);
}

enum ps_status ps_identity_write(struct ps_disk *disk, const char *dir,
                                 const struct ps_identity *identity, struct ps_error *err)
{
    char path[PS_DIR_BYTES_MAX + sizeof("/identity")];
    char text[TEXT_BYTES];
    make_path(dir, path);
    size_t n_bytes = make_text(identity, text);
    return ps_disk_replace(disk, path, (const uint8_t *)text, n_bytes, err);
}
