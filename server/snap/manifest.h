#ifndef PS_SERVER_SNAP_MANIFEST_H
#define PS_SERVER_SNAP_MANIFEST_H
/*
 * snap/manifest.h — the two texts of a snapshot: PART, by a server, MANIFEST, by the coordinator.
 *
 * Both are one JSON object on one line, then a line "xxh3 <32 hex digits>" over all before it.
 * Text <-> structs, nothing else: no disk. Foreign bytes: whatever is read has been checked, names
 * of files included. Reading owns memory, given back by ps_snap_part_deinit, ps_manifest_deinit.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/mem.h"
#include "num/checksum.h"

#define PS_SNAP_FORMAT      1u         /* Of directory, PART and MANIFEST. */
#define PS_SNAP_CHUNK_BYTES (1u << 20) /* Checked before anything of it is used. */

/* Table name and ".safetensors". */
#define PS_SNAP_NAME_BYTES (PS_NAME_BYTES_MAX + 16u)
#define PS_SNAP_DIR_BYTES  52u /* "000001-0000000042"; longer where the numbers are. */
#define PS_SNAP_FILES_MAX  (PS_TABLES_MAX + 2u) /* Tables, slots, staged gradients. */
#define PS_SNAP_KEEP       2u                   /* One to go back to, while the next is written. */
#define PS_SNAP_TEXT_BYTES (64u << 20)          /* Of PART: sums of 2 TiB. */

/** One file of a part. */
struct ps_snap_file {
    char name[PS_SNAP_NAME_BYTES]; /* Within the part's folder: [A-Za-z0-9_.-], never a path. */
    uint32_t table;                /* 1 + number of the table that it has; 0: something else. */
    uint64_t n_bytes;
    struct ps_checksum128
        *chunks; /* [n_chunks] XXH3, of PS_SNAP_CHUNK_BYTES each, the last one shorter. */
    uint32_t n_chunks;
};

/** A slot whose state the part has. */
struct ps_snap_slot {
    uint32_t slot;
    uint64_t epoch;
    uint64_t position;
};

/** PART: what one server wrote of one cut. */
struct ps_snap_part {
    uint64_t generation;
    uint64_t cut;
    struct ps_id cluster;
    uint64_t key_seed;
    uint64_t base_lsn; /* All records of the server's log below it are in the part. */
    uint32_t server;   /* Index. */
    uint32_t n_servers;
    struct ps_snap_file *files; /* [n_files] Names distinct. */
    uint32_t n_files;
    uint32_t n_slots;
    struct ps_snap_slot slots[PS_SLOTS]; /* By number, ascending. */
};

/** Who has which part. */
struct ps_manifest_part {
    uint32_t server;
    char address[PS_ADDRESS_BYTES_MAX + 1]; /* Of the server when it wrote it. */
    bool here;                              /* In the directory of this MANIFEST, too. */
    struct ps_checksum128 sum;              /* Of its PART, the whole file. */
    uint64_t n_bytes;                       /* Of all its files. */
};

/** MANIFEST: the cut is whole. */
struct ps_manifest {
    uint64_t generation;
    uint64_t cut;
    struct ps_id cluster;
    char taken[32]; /* RFC 3339, UTC. */
    uint64_t n_job_bytes;
    struct ps_checksum128 job_sum;
    uint32_t n_parts;
    struct ps_manifest_part parts[PS_SERVERS_MAX]; /* By server, ascending: 0 to n_parts - 1. */
};

/** The text of PART; `*ret` [*ret_n_bytes] is freed with ps_mem_free. @return PS_ERR_NOMEM */
PS_MUST_CHECK enum ps_status ps_snap_part_write(struct ps_mem *mem, const struct ps_snap_part *part,
                                                uint8_t **ret, size_t *ret_n_bytes,
                                                struct ps_error *err);

/**
 * Read PART. On failure `*ret` needs no deinit.
 * @return PS_ERR_CORRUPT with words, PS_ERR_UNSUPPORTED (a later format), PS_ERR_NOMEM
 */
PS_MUST_CHECK enum ps_status ps_snap_part_read(struct ps_mem *mem, const uint8_t *data,
                                               size_t n_bytes, struct ps_snap_part *ret,
                                               struct ps_error *err);

/** All zero does nothing. */
void ps_snap_part_deinit(struct ps_snap_part *part);

/** As the two above. */
PS_MUST_CHECK enum ps_status ps_manifest_write(struct ps_mem *mem,
                                               const struct ps_manifest *manifest, uint8_t **ret,
                                               size_t *ret_n_bytes, struct ps_error *err);
PS_MUST_CHECK enum ps_status ps_manifest_read(const uint8_t *data, size_t n_bytes,
                                              struct ps_manifest *ret, struct ps_error *err);

/** A checksum as it travels: 16 bytes, the low half first, each little-endian. */
static inline void ps_snap_sum_bytes(struct ps_checksum128 sum, uint8_t ret[16])
{
    ps_store_u64(ret, sum.low);
    ps_store_u64(ret + 8, sum.high);
}

static inline struct ps_checksum128 ps_snap_sum_from(const uint8_t bytes[16])
{
    return (struct ps_checksum128){.low = ps_load_u64(bytes), .high = ps_load_u64(bytes + 8)};
}

/** "000001-0000000042" */
void ps_snap_dir_name(uint64_t generation, uint64_t cut, char ret[PS_SNAP_DIR_BYTES]);

/** The generation and cut that a folder's name says; false: not a snapshot's name. */
PS_MUST_CHECK bool ps_snap_dir_parse(const char *name, uint64_t *ret_generation, uint64_t *ret_cut);

#endif
