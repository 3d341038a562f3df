#ifndef PS_COMMON_BASE_LIMITS_H
#define PS_COMMON_BASE_LIMITS_H
/*
 * base/limits.h — every fixed bound of the system, with the reason for its size.
 */
#include <ps/types.h> /* PS_DIMS_MAX, PS_NAME_BYTES_MAX */

#include "base/assert.h"

#define PS_PROTOCOL_MIN 1u /* Oldest wire protocol this build speaks. */
#define PS_PROTOCOL_MAX 1u /* Newest. Join refuses when the ranges do not meet. */

#define PS_SLOTS             64u        /* P: parts of the model; a slot moves as a whole. */
#define PS_SLOT_EPOCHS_MAX   64u        /* Of a slot's line; clients know the last ones only. */
#define PS_SERVERS_MAX       64u        /* A server without a slot would be idle. */
#define PS_SESSIONS_MAX      256u       /* Open at once; scanned per tick, stays in cache. */
#define PS_LANES_MAX         16u        /* Owner threads per server; more than cores is waste. */
#define PS_TABLES_MAX        256u       /* Tables per job; scanned by name on cold paths only. */
#define PS_ADDRESS_BYTES_MAX 255u       /* host:port or unix:/path. */
#define PS_REASON_BYTES_MAX  127u       /* Why a job is stopped: part of a line of every log. */
#define PS_BLOCKS_MAX        (1u << 20) /* Blocks per table: 2^20 x 256 Ki floats = 1 TiB. */

#define PS_BLOCK_FLOATS_MIN  (4u << 10)   /* Below, headers cost more than values. */
#define PS_BLOCK_FLOATS_MAX  (256u << 10) /* 1 MiB: one unary call's best size. */
#define PS_BLOCK_FLOATS_STEP 1024u        /* Blocks are rounded to whole 4 KiB pages. */

#define PS_ROW_FLOATS_MAX  4096u        /* Width of a sparse row: 16 KiB, far above embeddings. */
#define PS_ROW_STATE_MAX   4u           /* Optimizer values per weight in a sparse row. */
#define PS_KEYS_AT_ONCE    1024u        /* Decoded in one go: 8 KiB, stays in the nearest cache. */
#define PS_SWEEP_ROWS      4096u        /* Looked at for expiry in one go: some 10 us. */
#define PS_SCAN_ROWS       4096u        /* Looked at by one call of a scan: some 200 us. */
#define PS_SPARSE_ROWS_MAX (1u << 30)   /* Per table and slot; row numbers have 32 bits. */
#define PS_ADMIT_AFTER_MAX 255u         /* Pushes before a key gets a row; counters are bytes. */
#define PS_ADMIT_BYTES_MIN 64u          /* One cache line of counters. */
#define PS_ADMIT_BYTES     (256u << 10) /* In use: 16 MiB a table, 2^20 new keys in view. */
#define PS_ADMIT_BYTES_MAX (64u << 20)  /* Per table and slot: more than the rows they keep out. */

#define PS_MESSAGE_BYTES_MAX  (4u << 20)  /* gRPC's default receive limit. */
#define PS_CALL_PAYLOAD_BYTES (1u << 20)  /* A call is closed when it carries this. */
#define PS_HEAD_BYTES_MAX     (64u << 10) /* Header of a data message, payload excluded. */
#define PS_CALL_SLOTS_MAX     64u         /* Slots named in one call: all of them. */
#define PS_CALL_PARTS_MAX     512u        /* Blocks named in one call; small tables share calls. */

#define PS_SEQUENCES_OPEN_MAX 1024u /* Per stream; beyond it the server answers BUSY. */
#define PS_FRAGMENTS_MAX      64u   /* Calls that carry one slot's share of one unit. */
#define PS_PARKED_PULLS_MAX   1024u /* Pulls one lane may hold back while a worker lags. */

#define PS_RETRY_HINT_MS_MAX 30000u /* Longest wait that a client takes a server's word for. */
#define PS_WATCHERS_MAX      256u   /* Streams of health's Watch on one server: one per session. */
#define PS_REFLECTIONS_MAX   16u /* Streams of reflection on one server: people and their tools. */
#define PS_CONTROL_BYTES_MAX (64u << 10) /* A message to the coordinator. */

/*
 * A peer that is slower than this is as good as away: what it asks or is told within one call must
 * have passed in PS_PASSAGE_MS and a millisecond for each PS_PASSAGE_BYTES_PER_MS (64 kB/s).
 */
#define PS_PASSAGE_MS           10000u
#define PS_PASSAGE_BYTES_PER_MS 64u
/* While others wait for the place of a request that has not arrived whole, it has only so long. */
#define PS_PASSAGE_CROWDED_MS 3000u

#define PS_RETRY_BUSY_MS     100u  /* Told to who is refused: lanes empty their queues in less. */
#define PS_RETRY_NOT_YET_MS  20u   /* Told to who is too far ahead: a fraction of a usual step. */
#define PS_RETRY_NO_SPACE_MS 1000u /* Told while the disk is full: somebody has to make room. */
/* What one server bears at a time; beyond it BUSY, with a time to come again: slot/ledger.h. */
#define PS_SESSION_BYTES_MAX (64ull << 20)  /* Calls and pages on loan of a session, preset. */
#define PS_CALLS_BYTES_MAX   (512ull << 20) /* The same of all sessions, preset. */
#define PS_CALLS_BYTES_LEAST (32ull << 20)  /* One parked pull of every session, twice over. */
#define PS_SESSION_CALLS_MAX 64u            /* gRPC's usual bound on streams of a connection. */
#define PS_CALLS_MAX         4096u          /* Under way: 64 each of 64 busy sessions. */
#define PS_PAGES_LENT_MAX    (1u << 19)     /* A page counts its borrowers in 20 bits. */
#define PS_RETRY_MS_MIN      5u             /* A refused caller comes again when half of what was */
#define PS_RETRY_MS_MAX      500u           /*   before it is done; sooner or later are no use. */
#define PS_STAGED_STEPS_MAX  2u /* Steps of which a session may stage a unit: open, next. */

#define PS_WAL_SEGMENT_BYTES  (64u << 20) /* Of the log: trimmed as a whole; one name in 0.5 s. */
#define PS_WAL_BODY_BYTES_MAX (5u << 20)  /* Of one record: a message and what is noted of it. */
#define PS_WAL_BATCH_BYTES    (8u << 20)  /* Written and synced together, about: 50 ms of a disk. */
#define PS_WAL_AHEAD_BYTES    (16u << 20) /* The next segment is made when so much is left. */
#define PS_WAL_IDLE_MS        100u        /* Then the log notes that all of it is durable. */
#define PS_WAL_RETRY_MS       100u        /* A full disk is tried again after. */

#define PS_LEASES_MAX     (1u << 20) /* Leases (parts x epochs) of one job. */
#define PS_PART_UNITS_MAX (1u << 26) /* Of a part whose rows nobody counted: as 64 MiB of lines. */

#define PS_JOB_FILE_BYTES_MAX (64u << 10) /* A person wrote it; libyaml may be quadratic in it. */

#define PS_SOURCE_FILES_MAX    (1u << 16)   /* Files of one set; walked for every lease. */
#define PS_STREAM_BYTES        (256u << 10) /* Read at a time; a line seldom needs more room. */
#define PS_UNPACK_BYTES        (256u << 20) /* Text of packed files in memory; 2 s of work. */
#define PS_LINE_BYTES_MAX      (16u << 20)  /* A million features of 16 characters. */
#define PS_LEARN_BYTES         (256u << 20) /* Looked at before training: about a second. */
#define PS_LABELS_MAX          (1u << 16)   /* Classes of one set; more is no classification. */
#define PS_COLUMNS_MAX         (1u << 14)   /* Of a table in text; a column is a u16 field. */
#define PS_SCALES_MAX          (1u << 16)   /* Indices of libsvm that can be standardised. */
#define PS_FEED_ROWS           (1u << 16)   /* Shuffled among each other: a batch of 1,000 in 65. */
#define PS_FEED_FEATURES       (3u << 18)   /* Of a window: 11 MB, 15 with a unit; rows double. */
#define PS_PARTS_PER_WORKER    8u           /* Aimed at per epoch: evens out unequal workers. */
#define PS_PART_UNITS          8u           /* At least, or workers ask for leases all the time. */
#define PS_PART_BYTES_MAX      (64u << 20)  /* Who takes over passes over it in some 0.2 s. */
#define PS_TRAIN_UNIT_ROWS_MAX (1u << 20)   /* Rows behind one push: batch times local steps. */
#define PS_TRAIN_LOOK_ROWS     256u         /* Of a set, before training. */
#define PS_BAD_ROWS_TOLD       5u           /* Lines skipped that are told of; the rest count. */
#define PS_ZSTD_WINDOW_LOG_MAX 27u /* 128 MiB: what zstd itself takes without being asked. */

#define PS_SAVE_RUN_BYTES  (16u << 20) /* Rows sorted at a time, on their way to a file. */
#define PS_LIVE_PULL_BYTES (4u << 20)  /* Keys and rows of one pull when a cluster predicts. */
#define PS_SCORE_ROWS      1024u       /* Predicted together: large for BLAS. */
#define PS_SCORE_BYTES     (64u << 20) /* Rows of weights at hand; fewer where they are wide. */
#define PS_SAVE_TRIES      3u          /* A walk that began anew because slots moved. */

#define PS_DIR_BYTES_MAX      1024u /* A directory that is given; names within add some 100. */
#define PS_LOG_BYTES          (1ull << 30) /* Preset: replayed in some seconds. */
#define PS_LOG_BYTES_LEAST    (1ull << 20) /* Below it there is a snapshot all the time. */
#define PS_SNAPSHOTS_KEPT     2u           /* Preset: a bad newest one can be passed over. */
#define PS_SNAPSHOTS_KEPT_MAX 1024u        /* Folders in a folder that is listed. */
#define PS_WAIT_SERVER_MS_MAX 604800000u   /* A week: somebody has to buy the disk. */

#define PS_HEARTBEAT_MS    250u  /* Attend messages in both directions. */
#define PS_STREAM_GRACE_MS 1000u /* A session whose stream broke may return within. */
#define PS_SILENCE_MS      5000u /* A silent member is dead after. */

#define PS_WAIT_SERVER_MS   120000u /* Preset of --wait-for-server: a restart, or another node. */
#define PS_PATIENCE_MS      10000u  /* Of members, where nothing that is away can come back. */
#define PS_PATIENCE_MORE_MS 60000u  /* Beyond that: the coordinator itself comes back, too. */
#define PS_HOLD_MS          50u    /* Workers hold their next unit for a cut no longer than this. */
#define PS_CUT_TAKE_MS      10000u /* Servers take a cut in milliseconds; this one is stuck. */
#define PS_CUT_WRITE_MS     3600000u /* 180 GB at 50 MB/s: a slower disk has no use for cuts. */
#define PS_CUTS_MAX         64u      /* Complete ones that the coordinator remembers. */
#define PS_LOAD_TRIES_MAX   8u       /* Of a server at one cut: then it cannot be read. */

PS_STATIC_ASSERT(PS_PARKED_PULLS_MAX >= PS_SESSIONS_MAX,
                 "every worker must be able to have one pull parked, or a barrier can deadlock");
PS_STATIC_ASSERT(PS_CALL_PAYLOAD_BYTES + PS_BLOCK_FLOATS_MAX * 4u + PS_HEAD_BYTES_MAX <
                     PS_MESSAGE_BYTES_MAX,
                 "a call that is closed one block late still fits a message");
PS_STATIC_ASSERT(PS_SESSION_BYTES_MAX >= 4ull * PS_MESSAGE_BYTES_MAX,
                 "a session can have a few calls of any size under way");
PS_STATIC_ASSERT(PS_WAL_BODY_BYTES_MAX >= PS_MESSAGE_BYTES_MAX + PS_HEAD_BYTES_MAX,
                 "whatever can be pushed can be logged");
PS_STATIC_ASSERT(PS_SILENCE_MS >= 4 * PS_HEARTBEAT_MS, "one lost heartbeat is no death");

#endif
