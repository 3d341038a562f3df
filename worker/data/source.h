#ifndef PS_WORKER_DATA_SOURCE_H
#define PS_WORKER_DATA_SOURCE_H
/*
 * data/source.h — from what the user typed to an ordered list of files, and its cut into parts.
 *
 * A part is a run of bytes of one plain file; a line belongs to the part in which it begins, so a
 * cut may fall anywhere and no line is lost or read twice. A packed file (gzip, zstd: recognised by
 * content) is one part, for it can only be read from its beginning. Parts have no state: part i of
 * a given size is the same for everybody who has the same files, which ps_source_hash tells.
 * A source is read-only once opened. Blocks on the file system.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_mem;

enum ps_packing {
    PS_PACKING_NONE,
    PS_PACKING_GZIP,
    PS_PACKING_ZSTD
};

struct ps_source_file {
    char *path;       /* As it is opened. */
    const char *name; /* Its end, without folders. */
    uint64_t n_bytes; /* As it lies on the disk. */
    enum ps_packing packing;
};

struct ps_source {
    struct ps_mem *mem;
    struct ps_source_file *files; /* [n_files] */
    uint32_t n_files;             /* >= 1 */
    uint64_t n_bytes;             /* Of all files. */
};

struct ps_part {
    uint32_t file;
    uint64_t begin; /* Bytes [begin, end) of the file. */
    uint64_t end;
};

/**
 * Find the files that `what` means: the path of a file; a folder (its files, without those whose
 * name begins with '.' or '_'; no folders in it); a pattern with * ? [ ]; or several of these
 * joined by commas, read in the order given. Within a folder or a pattern the order is that of the
 * bytes of the names, whatever the locale. A path that exists is taken as it is, commas and all.
 *
 * @return PS_ERR_NOT_FOUND  no such file, or nothing fits the pattern
 *         PS_ERR_INVALID    named twice, not a regular file, too many, or packed by something else
 *         PS_ERR_IO, PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_source_open(struct ps_mem *mem, const char *what,
                                            struct ps_source **ret, struct ps_error *err);

void ps_source_close(struct ps_source *source);

/** In how many parts of at most `part_bytes` (> 0) the files are cut. An empty file has none. */
uint64_t ps_source_parts(const struct ps_source *source, uint64_t part_bytes);

/** Part number `index`, which is below ps_source_parts; files in order, then bytes. */
struct ps_part ps_source_part(const struct ps_source *source, uint64_t part_bytes, uint64_t index);

/** The whole of one file. */
struct ps_part ps_source_whole(const struct ps_source *source, uint32_t file);

/**
 * 64 bits of names without folders, sizes and order: equal wherever the same files are mounted.
 * Contents are not read.
 */
uint64_t ps_source_hash(const struct ps_source *source);

/** One line for people: number of files, bytes, the first name. Cut at `n_room`. */
void ps_source_text(const struct ps_source *source, char *text, size_t n_room);

#endif
