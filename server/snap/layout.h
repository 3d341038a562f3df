#ifndef PS_SERVER_SNAP_LAYOUT_H
#define PS_SERVER_SNAP_LAYOUT_H
/*
 * snap/layout.h — what things are called in a snapshot; README.md says what they hold. For this
 * folder and whoever serves or collects its files.
 */
#define PS_SNAP_MANIFEST "MANIFEST"
#define PS_SNAP_PART     "PART"
#define PS_SNAP_JOB      "job.pb"
#define PS_SNAP_SLOTS    "SLOTS"
#define PS_SNAP_STAGED   "STAGED"
#define PS_SNAP_TABLE    ".safetensors" /* Behind the table's name. */
#define PS_SNAP_SERVER   "server-"      /* Before the server's index: the folder of its part. */
#define PS_SNAP_TEMP     ".tmp"         /* Behind that, while it is written. */

/* Tensors: "slot.<number>" and one of these. */
#define PS_SNAP_BLOCKS  "blocks"  /* U64 [n][4] Number, elements, t, version. */
#define PS_SNAP_POWER   "power"   /* F64 [n][2] */
#define PS_SNAP_WEIGHTS "weights" /* F32, of blocks behind each other, or [n][width]. */
#define PS_SNAP_STATE   "state"   /* F32, of blocks [k][elements], or [n][k][width]. */
#define PS_SNAP_KEYS    "keys"    /* U64 [n] ascending. */
#define PS_SNAP_STEPS   "steps"   /* U32 [n][2] t, touched. */
#define PS_SNAP_CLOCK   "clock"   /* U32 [2] Clock of the slot's rows, next word to be aged. */
#define PS_SNAP_RATE    "rate"    /* F32 [1] */
#define PS_SNAP_COUNTS  "counts"  /* U8 [n] Of keys without a row. */
#define PS_SNAP_LINE    "line"    /* U8 [n], of SLOTS: SlotState. */

#define PS_SNAP_BLOCK_NUMBERS 4u

#endif
