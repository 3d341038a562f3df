/* temp_folder.c — see temp_folder.h. */
#include "unit/data/temp_folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include <dirent.h>

#define ZLIB_CONST
#include <check.h>
#include <zlib.h>

void temp_folder_make(struct temp_folder *folder)
{
    static const char pattern[] = "/tmp/ps-test-data-XXXXXX";
    memcpy(folder->path, pattern, sizeof(pattern));
    ck_assert_ptr_nonnull(mkdtemp(folder->path));
}

static void path_in(const struct temp_folder *folder, const char *name, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/%s", folder->path, name);
    ck_assert_int_gt(n, 0);
    ck_assert_int_lt(n, PATH_MAX);
}

void temp_folder_remove(struct temp_folder *folder)
{
    DIR *dir = opendir(folder->path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[PATH_MAX];
        path_in(folder, entry->d_name, path);
        (void)unlink(path); /* "." and ".." refuse, as they should. */
    }
    (void)closedir(dir);
    ck_assert_int_eq(rmdir(folder->path), 0);
}

void temp_folder_put(const struct temp_folder *folder, const char *name, const uint8_t *data,
                     size_t n_bytes)
{
    char path[PATH_MAX];
    path_in(folder, name, path);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, n_bytes, file), n_bytes);
    ck_assert_int_eq(fclose(file), 0);
}

size_t pack_gzip(const uint8_t *data, size_t n_bytes, uint8_t *out, size_t n_room)
{
    z_stream stream = {.next_in = data, .avail_in = (unsigned)n_bytes};
    ck_assert_int_eq(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    stream.next_out = out;
    stream.avail_out = (unsigned)n_room;
    ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t n = n_room - stream.avail_out;
    ck_assert_int_eq(deflateEnd(&stream), Z_OK);
    return n;
}

void temp_folder_put_gzip(const struct temp_folder *folder, const char *name, const uint8_t *data,
                          size_t n_bytes)
{
    uint8_t packed[4096];
    temp_folder_put(folder, name, packed, pack_gzip(data, n_bytes, packed, sizeof(packed)));
}
