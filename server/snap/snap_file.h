#ifndef PS_SERVER_SNAP_SNAP_FILE_H
#define PS_SERVER_SNAP_SNAP_FILE_H
/*
 * snap/snap_file.h — one file of a part: written from its beginning to its end, summed chunk by
 * chunk on the way; read from any place on, and nothing of a chunk before its sum was right.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "port/disk.h"
#include "snap/manifest.h"

#define PS_SNAP_PATH_BYTES  4096u
#define PS_SNAP_WRITE_BYTES ((size_t)4 * PS_SNAP_CHUNK_BYTES) /* A busy machine wakes us late. */

/** "<a>/<b>" */
PS_MUST_CHECK enum ps_status ps_snap_path(const char *a, const char *b,
                                          char ret[PS_SNAP_PATH_BYTES], struct ps_error *err);

/* ---- Writing -------------------------------------------------------------------------------- */

struct ps_snap_out {
    struct ps_disk_file *file;
    struct ps_mem *mem;
    struct ps_snap_file about; /* Its name, size and sums so far. */
    uint32_t n_chunks_room;
    void *memory;  /* That the bytes lie in. */
    uint8_t *room; /* [PS_SNAP_WRITE_BYTES] Aligned, so that a disk can take it as it is. */
    size_t n_used; /* Of it. */
};

/**
 * Make the file `name` in the folder `dir`; `out` is zeroed before the first, whose memory serves
 * those after it. Of a table's file the caller sets `about.table`.
 * @return as ps_disk_open, PS_ERR_NOMEM; then there is no file
 */
PS_MUST_CHECK enum ps_status ps_snap_out_open(struct ps_snap_out *out, struct ps_disk *disk,
                                              struct ps_mem *mem, const char *dir, const char *name,
                                              struct ps_error *err);

PS_MUST_CHECK enum ps_status ps_snap_out_put(struct ps_snap_out *out, const void *data,
                                             size_t n_bytes, struct ps_error *err);

/**
 * Write the rest, sync (with `sync`), close. `*ret` then owns the sums.
 * @return as disk; the file is closed all the same, and `*ret` has nothing to free
 */
PS_MUST_CHECK enum ps_status ps_snap_out_finish(struct ps_snap_out *out, bool sync,
                                                struct ps_snap_file *ret, struct ps_error *err);

/** After the last file, and instead of finish: all is given back. Zeroed: does nothing. */
void ps_snap_out_cancel(struct ps_snap_out *out);

/* ---- Reading -------------------------------------------------------------------------------- */

struct ps_snap_in {
    const struct ps_snap_file *about; /* Borrowed. */
    struct ps_disk_file *file;
    char path[PS_SNAP_PATH_BYTES];
    uint8_t *chunk;  /* [PS_SNAP_CHUNK_BYTES] */
    uint32_t number; /* Of the chunk that is there, + 1; 0: none. */
    uint64_t at;     /* Next byte of ps_snap_in_next. */
};

/** @return PS_ERR_CORRUPT when the size is another, as ps_disk_open, PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_snap_in_open(struct ps_snap_in *in, struct ps_disk *disk,
                                             struct ps_mem *mem, const char *dir,
                                             const struct ps_snap_file *about,
                                             struct ps_error *err);

/** Zeroed or closed already: does nothing. */
void ps_snap_in_close(struct ps_snap_in *in);

/** Go on at this byte. */
void ps_snap_in_seek(struct ps_snap_in *in, uint64_t at);

/** The next `n_bytes`. @return PS_ERR_CORRUPT with file and byte; also behind the file's end */
PS_MUST_CHECK enum ps_status ps_snap_in_next(struct ps_snap_in *in, void *to, size_t n_bytes,
                                             struct ps_error *err);

/** Compare every chunk. */
PS_MUST_CHECK enum ps_status ps_snap_in_verify(struct ps_snap_in *in, struct ps_error *err);

#endif
