/* source.c — see source.h. */
#include "data/source.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dirent.h>
#include <glob.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/hash.h"
#include "data/texts.h"
#include "data/unpack.h"

#define FILES_MIN   16u
#define MAGIC_BYTES 6u

static const struct {
    uint8_t bytes[MAGIC_BYTES];
    uint8_t n_bytes;
    enum ps_packing packing; /* NONE: known, but not read. */
    const char *name;
} magics[] = {
    {{0x1f, 0x8b}, 2, PS_PACKING_GZIP, "gzip"},
    {{0x28, 0xb5, 0x2f, 0xfd}, 4, PS_PACKING_ZSTD, "zstd"},
    {{0xfd, '7', 'z', 'X', 'Z', 0}, 6, PS_PACKING_NONE, "xz"},
    {{'B', 'Z', 'h'}, 3, PS_PACKING_NONE, "bzip2"},
    {{0x04, 0x22, 0x4d, 0x18}, 4, PS_PACKING_NONE, "lz4"},
    {{'P', 'K', 3, 4}, 4, PS_PACKING_NONE, "zip"},
    {{'P', 'A', 'R', '1'}, 4, PS_PACKING_NONE, "Parquet"},
};

static enum ps_status read_magic(int fd, struct ps_source_file *file, struct ps_error *err)
{
    uint8_t head[MAGIC_BYTES];
    ssize_t n = -1;
    do {
        n = pread(fd, head, sizeof(head), 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return ps_fail(err, PS_ERR_IO, "cannot read '%s': %s", file->path, strerrordesc_np(errno));
    }
    file->packing = PS_PACKING_NONE;
    for (size_t i = 0; i < PS_ARRAY_LEN(magics); i++) {
        if (n < magics[i].n_bytes || memcmp(head, magics[i].bytes, magics[i].n_bytes) != 0) {
            continue;
        }
        if (magics[i].packing == PS_PACKING_NONE) {
            return ps_fail(err, PS_ERR_INVALID,
                           "'%s' is a %s file; expected text, plain or packed by gzip or zstd",
                           file->path, magics[i].name);
        }
        file->packing = magics[i].packing;
    }
    return PS_OK;
}

/* Size and packing of the file at file->path. */
static enum ps_status examine(struct ps_source_file *file, struct ps_error *err)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return ps_fail(err, errno == ENOENT ? PS_ERR_NOT_FOUND : PS_ERR_IO, "cannot open '%s': %s",
                       file->path, strerrordesc_np(errno));
    }
    enum ps_status status = PS_OK;
    struct stat info;
    if (fstat(fd, &info) < 0) {
        status =
            ps_fail(err, PS_ERR_IO, "cannot examine '%s': %s", file->path, strerrordesc_np(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = ps_fail(err, PS_ERR_INVALID, "'%s' is not a regular file", file->path);
    } else {
        file->n_disk = (uint64_t)info.st_size;
        file->n_bytes = file->n_disk;
        status = read_magic(fd, file, err);
    }
    (void)close(fd); /* Read only. */
    return status;
}

struct list {
    struct ps_source *source;
    uint32_t capacity;
};

static enum ps_status make_room(struct list *list, struct ps_error *err)
{
    struct ps_source *source = list->source;
    if (source->n_files == PS_SOURCE_FILES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "more than %u files of data; join some of them",
                       PS_SOURCE_FILES_MAX);
    }
    if (source->n_files < list->capacity) {
        return PS_OK;
    }
    uint32_t n = list->capacity == 0 ? FILES_MIN : 2 * list->capacity;
    struct ps_source_file *files =
        ps_mem_grow(source->mem, PS_MEM_DATA, source->files, n * sizeof(*files));
    if (files == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a list of %" PRIu32 " files", n);
    }
    source->files = files;
    list->capacity = n;
    return PS_OK;
}

static enum ps_status add_file(struct list *list, const char *path, struct ps_error *err)
{
    enum ps_status status = make_room(list, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_source *source = list->source;
    struct ps_source_file file = {.path = ps_mem_strdup(source->mem, PS_MEM_DATA, path)};
    if (file.path == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the name of a file");
    }
    const char *slash = strrchr(file.path, '/');
    file.name = slash != NULL ? slash + 1 : file.path;
    status = examine(&file, err);
    if (status != PS_OK) {
        ps_mem_free(file.path);
        return status;
    }
    source->files[source->n_files++] = file;
    return PS_OK;
}

static int by_path(const void *a, const void *b)
{
    const struct ps_source_file *one = a;
    const struct ps_source_file *other = b;
    return strcmp(one->path, other->path);
}

/* Order the files from number `first` on, which came in no order of ours. */
static void order_from(struct ps_source *source, uint32_t first)
{
    if (source->n_files > first) {
        qsort(source->files + first, source->n_files - first, sizeof(*source->files), by_path);
    }
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static enum ps_status add_entries(struct list *list, DIR *dir, const char *folder,
                                  struct ps_error *err)
{
    for (;;) {
        const struct dirent *entry = readdir(dir); // NOLINT(concurrency-mt-unsafe): dir is ours
        if (entry == NULL) {
            return PS_OK;
        }
        char path[PATH_MAX];
        int n = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || entry->d_name[0] == '_') {
            continue; /* Hidden, or a mark of a batch system such as _SUCCESS. */
        }
        if (n < 0 || n >= PATH_MAX) {
            return ps_fail(err, PS_ERR_INVALID, "a path in '%s' is too long", folder);
        }
        enum ps_status status = is_folder(path) ? PS_OK : add_file(list, path, err);
        if (status != PS_OK) {
            return status;
        }
    }
}

static enum ps_status add_folder(struct list *list, const char *folder, struct ps_error *err)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return ps_fail(err, PS_ERR_IO, "cannot open the folder '%s': %s", folder,
                       strerrordesc_np(errno));
    }
    uint32_t first = list->source->n_files;
    enum ps_status status = add_entries(list, dir, folder, err);
    (void)closedir(dir);
    if (status == PS_OK && list->source->n_files == first) {
        status = ps_fail(err, PS_ERR_NOT_FOUND, "the folder '%s' holds no files", folder);
    }
    order_from(list->source, first);
    return status;
}

static enum ps_status add_pattern(struct list *list, const char *pattern, struct ps_error *err)
{
    glob_t found = {0};
    /* Unsafe only while another thread changes the environment. */
    int word = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, // NOLINT(concurrency-mt-unsafe)
                    &found);
    enum ps_status status = PS_OK;
    if (word == GLOB_NOMATCH) {
        status = ps_fail(err, PS_ERR_NOT_FOUND, "no file fits '%s'", pattern);
    } else if (word != 0) {
        status = ps_fail(err, word == GLOB_NOSPACE ? PS_ERR_NOMEM : PS_ERR_IO,
                         "cannot look for '%s'", pattern);
    }
    uint32_t first = list->source->n_files;
    for (size_t i = 0; status == PS_OK && i < found.gl_pathc; i++) {
        status = is_folder(found.gl_pathv[i]) ? PS_OK : add_file(list, found.gl_pathv[i], err);
    }
    if (status == PS_OK && list->source->n_files == first) {
        status = ps_fail(err, PS_ERR_NOT_FOUND, "only folders fit '%s'", pattern);
    }
    order_from(list->source, first);
    globfree(&found);
    return status;
}

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

/* One word of the list: a folder, a pattern or a file. */
static enum ps_status add_word(struct list *list, const char *word, struct ps_error *err)
{
    if (is_folder(word)) {
        return add_folder(list, word, err);
    }
    if (!exists(word) && strpbrk(word, "*?[") != NULL) {
        return add_pattern(list, word, err);
    }
    return add_file(list, word, err);
}

static enum ps_status add_words(struct list *list, const char *what, struct ps_error *err)
{
    if (exists(what)) {
        return add_word(list, what, err);
    }
    for (const char *at = what;; at++) {
        size_t n = strcspn(at, ",");
        char word[PATH_MAX];
        if (n == 0) {
            return ps_fail(err, PS_ERR_INVALID, "'%s' names a file that has no name", what);
        }
        if (n >= sizeof(word)) {
            return ps_fail(err, PS_ERR_INVALID, "a path of %zu bytes is too long", n);
        }
        memcpy(word, at, n);
        word[n] = '\0';
        enum ps_status status = add_word(list, word, err);
        at += n;
        if (status != PS_OK || *at == '\0') {
            return status;
        }
    }
}

/* A file that is named twice would be trained twice. */
static enum ps_status refuse_twice(const struct ps_source *source, struct ps_error *err)
{
    size_t n = source->n_files;
    struct ps_source_file *copy = ps_mem_array(source->mem, PS_MEM_DATA, n, sizeof(*source->files));
    if (copy == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a list of %zu files", n);
    }
    memcpy(copy, source->files, n * sizeof(*copy));
    qsort(copy, n, sizeof(*copy), by_path);
    enum ps_status status = PS_OK;
    for (size_t i = 1; i < n && status == PS_OK; i++) {
        if (by_path(&copy[i - 1], &copy[i]) == 0) {
            status = ps_fail(err, PS_ERR_INVALID, "'%s' is named twice", copy[i].path);
        }
    }
    ps_mem_free(copy);
    return status;
}

static uint64_t sum_bytes(const struct ps_source *source)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < source->n_files; i++) {
        n += source->files[i].n_bytes;
    }
    return n;
}

enum ps_status ps_source_open_within(struct ps_mem *mem, const char *what, uint64_t unpack_bytes,
                                     struct ps_source **ret, struct ps_error *err)
{
    struct ps_source *source = ps_mem_alloc(mem, PS_MEM_DATA, sizeof(*source));
    if (source == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a list of files");
    }
    source->mem = mem;
    source->unpack_bytes = unpack_bytes;
    struct list list = {.source = source};
    enum ps_status status = add_words(&list, what, err);
    if (status == PS_OK) {
        status = refuse_twice(source, err);
    }
    if (status == PS_OK) {
        status = ps_unpack_files(source, unpack_bytes, err);
        source->n_bytes = sum_bytes(source);
    }
    if (status == PS_OK && source->n_bytes == 0) {
        status = ps_fail(err, PS_ERR_INVALID, "'%s' is empty", what);
    }
    if (status != PS_OK) {
        ps_source_close(source);
        return status;
    }
    *ret = source;
    return PS_OK;
}

enum ps_status ps_source_open(struct ps_mem *mem, const char *what, struct ps_source **ret,
                              struct ps_error *err)
{
    return ps_source_open_within(mem, what, PS_UNPACK_BYTES, ret, err);
}

void ps_source_close(struct ps_source *source)
{
    if (source == NULL) {
        return;
    }
    for (uint32_t i = 0; i < source->n_files; i++) {
        ps_mem_free(source->files[i].path);
    }
    ps_mem_free(source->files);
    ps_texts_destroy(source->texts);
    ps_mem_free(source);
}

static uint64_t parts_of(const struct ps_source_file *file, uint64_t part_bytes)
{
    if (file->packing != PS_PACKING_NONE) {
        return 1;
    }
    return file->n_bytes / part_bytes + (file->n_bytes % part_bytes != 0);
}

uint64_t ps_source_parts(const struct ps_source *source, uint64_t part_bytes)
{
    PS_ASSERT(part_bytes > 0);
    uint64_t n = 0;
    for (uint32_t i = 0; i < source->n_files; i++) {
        n += parts_of(&source->files[i], part_bytes);
    }
    return n;
}

struct ps_part ps_source_part(const struct ps_source *source, uint64_t part_bytes, uint64_t index)
{
    PS_ASSERT(part_bytes > 0);
    uint32_t i = 0;
    for (; i < source->n_files; i++) {
        uint64_t n = parts_of(&source->files[i], part_bytes);
        if (index < n) {
            break;
        }
        index -= n;
    }
    PS_ASSERT(i < source->n_files);
    struct ps_part part = ps_source_whole(source, i);
    if (source->files[i].packing == PS_PACKING_NONE) {
        part.begin = index * part_bytes;
        uint64_t n_left = part.end - part.begin;
        part.end = n_left < part_bytes ? part.end : part.begin + part_bytes;
    }
    return part;
}

struct ps_part ps_source_whole(const struct ps_source *source, uint32_t file)
{
    PS_ASSERT(file < source->n_files);
    return (struct ps_part){.file = file, .begin = 0, .end = source->files[file].n_bytes};
}

uint64_t ps_source_hash(const struct ps_source *source)
{
    uint64_t hash = source->n_files;
    for (uint32_t i = 0; i < source->n_files; i++) {
        const struct ps_source_file *file = &source->files[i];
        hash = ps_hash_bytes(hash, file->name, strlen(file->name));
        hash = ps_hash_bytes(hash, &file->n_disk, sizeof(file->n_disk));
        hash = ps_hash_bytes(hash, &file->n_bytes, sizeof(file->n_bytes));
    }
    return hash;
}

void ps_source_text(const struct ps_source *source, char *text, size_t n_room)
{
    uint64_t n_disk = 0;
    for (uint32_t i = 0; i < source->n_files; i++) {
        n_disk += source->files[i].n_disk;
    }
    (void)snprintf(text, n_room, "%" PRIu32 " file%s, %.1f MB, %s%s", source->n_files,
                   source->n_files == 1 ? "" : "s", (double)n_disk / 1e6, source->files[0].name,
                   source->n_files == 1 ? "" : ", ...");
}

uint32_t ps_source_single(const struct ps_source *source, char *text, size_t n_room)
{
    const char *first = "";
    uint32_t n = 0;
    for (uint32_t i = 0; i < source->n_files; i++) {
        if (source->files[i].packing != PS_PACKING_NONE) {
            first = n == 0 ? source->files[i].name : first;
            n++;
        }
    }
    if (n_room > 0) {
        text[0] = '\0';
    }
    if (n == 0) {
        return 0;
    }
    char why[96] = "";
    if (source->unpack_bytes > 0) {
        (void)snprintf(why, sizeof(why),
                       "packed files are cut up to %.6g MiB of text in all, and here is more; ",
                       (double)source->unpack_bytes / (1u << 20));
    }
    (void)snprintf(text, n_room,
                   "%" PRIu32 " of %" PRIu32 " file%s can be read by one worker at a time only, "
                   "from '%.80s' on: %sunpack them, or split them into more files",
                   n, source->n_files, source->n_files == 1 ? "" : "s", first, why);
    return n;
}
