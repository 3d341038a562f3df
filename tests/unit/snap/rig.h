#ifndef PS_TESTS_UNIT_SNAP_RIG_H
#define PS_TESTS_UNIT_SNAP_RIG_H
/*
 * unit/snap/rig.h — a model of all kinds of tables, spread over some servers, cut and written; and
 * read again, slot by slot, into another one.
 */
#include <stdbool.h>
#include <stdint.h>

#include "port/disk.h"
#include "port/inline_exec.h"
#include "slot/catalogue.h"
#include "slot/cut.h"
#include "snap/keeper.h"
#include "snap/snap_read.h"
#include "snap/snap_write.h"
#include "table/dense.h"
#include "table/sparse.h"

#define RIG_DIR "/snapshots"

/** The content of a model. */
struct rig_model {
    struct ps_dense *dense[PS_TABLES_MAX];             /* By table. */
    struct ps_sparse *sparse[PS_TABLES_MAX][PS_SLOTS]; /* By table, slot. */
    char lines[PS_SLOTS][48];                          /* States, as text here. */
    uint64_t positions[PS_SLOTS];
    uint32_t n_staged; /* Read. */
    uint32_t n_blocks_read;
    uint64_t n_rows_read;
};

/** How large a model is. */
struct rig_size {
    uint64_t n_floats; /* Of a dense table. */
    uint32_t n_keys;   /* Of a sparse table and slot, some of them without a row yet. */
    uint32_t width;
    uint32_t slots;    /* Only so many have rows; 0: all. */
    uint32_t n_staged; /* Gradients, in slots that follow each other. */
    bool one_rule;     /* adagrad; else all. */
    bool admit_all;    /* Every key has a row from its first push on. */
};
#define RIG_SMALL ((struct rig_size){.n_floats = 3000, .n_keys = 40, .width = 3})

struct rig {
    struct ps_mem mem;
    struct ps_disk *disk;
    char dir[256]; /* RIG_DIR; may be changed before rig_open. */
    struct ps_catalogue catalogue;
    char definitions[PS_TABLES_MAX][32];
    struct ps_snap_table tables[PS_TABLES_MAX];
    uint32_t n_tables;
    struct ps_inline_exec exec;
    struct ps_snap_writer *writer;
    struct ps_cut_keeper *keeper;
    struct rig_size size;
    struct rig_model model;
    bool done;          /* The last write is. */
    int64_t fail_after; /* Of the next write: memory is refused after so many; < 0: never. */
};

/** A dense and a sparse table of each rule, filled by chance. `disk` outlives it. */
void rig_init(struct rig *rig, struct ps_disk *disk, const struct rig_size *size, uint64_t seed);
void rig_deinit(struct rig *rig);

/** Make the writer, which makes RIG_DIR, and the keeper. */
enum ps_status rig_open(struct rig *rig, enum ps_snap_plant plant, struct ps_error *err);

/** Change the model a little. */
void rig_train(struct rig *rig, uint64_t seed);

/** One server's part of a cut: the slots s with s % n_servers == server. */
struct ps_cut *rig_cut(struct rig *rig, uint32_t server, uint32_t n_servers);

/** Write one part. */
void rig_write_part(struct rig *rig, uint64_t cut, uint32_t server, uint32_t n_servers,
                    struct ps_snap_write *write);

/** All parts and MANIFEST. @return the first failure */
enum ps_status rig_snapshot(struct rig *rig, uint64_t cut, uint32_t n_servers,
                            struct ps_error *err);

/** Read a snapshot with `n_servers` readers, each its slots, into an empty model. */
enum ps_status rig_load(struct rig *rig, const struct ps_snap *snap, uint32_t n_servers,
                        struct rig_model *ret, struct ps_error *err);
void rig_model_deinit(struct rig_model *model);

/** Bit for bit. */
void rig_same(const struct rig *rig, const struct rig_model *a, const struct rig_model *b);

struct ps_snap_place rig_place(struct rig *rig);

#endif
