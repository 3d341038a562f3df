#ifndef PS_WORKER_DATA_SOURCE_H
#define PS_WORKER_DATA_SOURCE_H
/*
 * data/source.h — from what the user typed to an ordered list of files, and its cut into parts.
 *
 * A part is a run of bytes of the text of one file; a line belongs to the part in which it begins,
 * so a cut may fall anywhere and no line is lost or read twice. A packed file (gzip, zstd:
 * recognised by content) can only be read from its beginning. So packed files are unpacked into
 * memory when the source is opened, and cut like plain ones: in order, as long as their texts
 * together are at most PS_UNPACK_BYTES. From the first that does not fit on each packed file is one
 * part, which one worker reads at a time (ps_source_single). All this is a function of the files
 * alone. Parts have no state: part i of a given size is the same for everybody who has the same
 * files, which ps_source_hash tells.
 * A source is read-only once opened. Blocks on the file system.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_mem;
struct ps_texts;

enum ps_packing {
    PS_PACKING_NONE,
    PS_PACKING_GZIP,
    PS_PACKING_ZSTD
};

struct ps_source_file {
    char *path;                   /* As it is opened. */
    const char *name;             /* Its end, without folders. */
    uint64_t n_disk;              /* Bytes as they lie on the disk. */
    uint64_t n_bytes;             /* Of its text; of a file that stays packed, n_disk. */
    enum ps_packing packing;      /* To be undone when it is read: NONE once it is unpacked. */
    const struct ps_texts *texts; /* Its text is in memory, */
    uint64_t at;                  /* from this byte on; NULL: it is on the disk. */
    uint64_t n_text_min;          /* Of a file that stays packed: its text has so many or more. */
};

struct ps_source {
    struct ps_mem *mem;
    struct ps_source_file *files; /* [n_files] */
    uint32_t n_files;             /* >= 1 */
    uint64_t n_bytes;             /* Of all files: the sum of their n_bytes. */
    struct ps_texts *texts;       /* Of those unpacked; NULL: none. */
    uint64_t unpack_bytes;        /* What they may have together. */
};

struct ps_part {
    uint32_t file;
    uint64_t begin; /* Bytes [begin, end) of the n_bytes of the file. */
    uint64_t end;
};

/**
 * Find the files that `what` means: the path of a file; a folder (its files, without those whose
 * name begins with '.' or '_'; no folders in it); a pattern with * ? [ ]; or several of these
 * joined by commas, read in the order given. Within a folder or a pattern the order is that of the
 * bytes of the names, whatever the locale. A path that exists is taken as it is, commas and all.
 *
 * @return PS_ERR_NOT_FOUND  no such file, or nothing fits the pattern
 *         PS_ERR_INVALID    named twice, not a regular file, too many, packed by something else,
 *                           damaged (a packed file, as far as it is unpacked), or all of it empty
 *         PS_ERR_IO
 *         PS_ERR_NOMEM      also when the budget has no room for what is unpacked: a worker that
 *                           went on without would cut the files differently from the others
 */
PS_MUST_CHECK enum ps_status ps_source_open(struct ps_mem *mem, const char *what,
                                            struct ps_source **ret, struct ps_error *err);

/**
 * As above, with at most `unpack_bytes` (<= PS_UNPACK_BYTES) of text unpacked. 0 is for those who
 * read everything alone, from beginning to end: nothing is unpacked into memory. Parts are the same
 * for those who open with the same number.
 */
PS_MUST_CHECK enum ps_status ps_source_open_within(struct ps_mem *mem, const char *what,
                                                   uint64_t unpack_bytes, struct ps_source **ret,
                                                   struct ps_error *err);

void ps_source_close(struct ps_source *source);

/** In how many parts of at most `part_bytes` (> 0) the files are cut. An empty file has none. */
uint64_t ps_source_parts(const struct ps_source *source, uint64_t part_bytes);

/** Part number `index`, which is below ps_source_parts; files in order, then bytes. */
struct ps_part ps_source_part(const struct ps_source *source, uint64_t part_bytes, uint64_t index);

/** The whole of one file. */
struct ps_part ps_source_whole(const struct ps_source *source, uint32_t file);

/**
 * 64 bits of names without folders, sizes (n_disk and n_bytes) and order: equal wherever the same
 * files are mounted. Contents do not count beyond their length.
 */
uint64_t ps_source_hash(const struct ps_source *source);

/** One line for people: number of files, bytes on the disk, the first name. Cut at `n_room`. */
void ps_source_text(const struct ps_source *source, char *text, size_t n_room);

/**
 * How many files are one part each because they stay packed. If any, `text` is one line for people
 * that names the first of them, says why, and what to do; else "". Cut at `n_room` (0: no text).
 */
uint32_t ps_source_single(const struct ps_source *source, char *text, size_t n_room);

#endif
