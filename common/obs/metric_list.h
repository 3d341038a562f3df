#ifndef PS_COMMON_OBS_METRIC_LIST_H
#define PS_COMMON_OBS_METRIC_LIST_H
/*
 * obs/metric_list.h — every metric: name (Prometheus rules: unit last), kind, help.
 *
 * Kinds: COUNTER only rises; GAUGE goes up and down; CLOCKS is a histogram of whole clocks;
 * SECONDS is a histogram observed in nanoseconds and printed in seconds. To add a metric, add a
 * line here and count it where it happens.
 */

/* clang-format off */
#define PS_METRIC_LIST(X)                                                                          \
    X(push_total,               COUNTER, "Pushes acknowledged, repeats included.")                 \
    X(push_rows_total,          COUNTER, "Rows or examples that acknowledged pushes stood for.")   \
    X(pushes_repeated_total,    COUNTER, "Pushed parts that a slot had already (not applied).")    \
    X(pull_total,               COUNTER, "Pulls answered with values.")                            \
    X(pulls_parked,             GAUGE,   "Pulls that wait for a slower worker now.")               \
    X(pulls_parked_total,       COUNTER, "Pulls that had to wait for a slower worker.")            \
    X(pulls_refused_total,      COUNTER, "Pulls and scans refused: parked or borrowed bytes at their bound.")\
    X(pushes_refused_total,     COUNTER, "Pushes refused for now: too many under way, or no memory.")  \
    X(calls_busy_total,         COUNTER, "Calls refused whole for now: their session has too many.")\
    X(calls_open,               GAUGE,   "Pushes and pulls under way now.")                        \
    X(calls_open_bytes,         GAUGE,   "Bytes of these and of pages on loan.")                   \
    X(pages_lent_bytes,         GAUGE,   "Bytes of pages that the transport still sends.")         \
    X(messages_malformed_total, COUNTER, "Messages to or of the coordinator that made no sense.")  \
    X(not_finite_total,         COUNTER, "Pushes refused since a value was NaN or infinite.")      \
    X(blocked_us_total,         COUNTER, "Microseconds that pulls have been parked.")              \
    X(bytes_pushed_total,       COUNTER, "Payload bytes of pushes.")                               \
    X(bytes_pulled_total,       COUNTER, "Payload bytes of answers to pulls.")                     \
    X(scan_rows_total,          COUNTER, "Rows handed out to scans.")                              \
    X(bytes_scanned_total,      COUNTER, "Payload bytes of answers to scans.")                     \
    X(bytes_copied_push_total,  COUNTER, "Payload bytes that this program copied for pushes.")     \
    X(bytes_copied_pull_total,  COUNTER, "Payload bytes that this program copied for pulls.")      \
    X(pages_copied_total,       COUNTER, "Updates of a shared page that had to copy its values.")  \
    X(pages_fresh_total,        COUNTER, "Updates of a shared page that went to a fresh page.")    \
    X(sessions_open,            GAUGE,   "Sessions that may push or pull now.")                    \
    X(sessions_expired_total,   COUNTER, "Sessions closed because they fell silent.")              \
    X(leases_lent_total,        COUNTER, "Parts of the data lent, again after a loss included.")   \
    X(leases_returned_total,    COUNTER, "Parts taken back from a lost or leaving session.")       \
    X(leases_finished_total,    COUNTER, "Parts finished.")                                        \
    X(calls_total,              COUNTER, "Calls that arrived, of every kind.")                     \
    X(calls_refused_total,      COUNTER, "Calls answered with an error.")                          \
    X(retries_total,            COUNTER, "Calls sent again under the same sequence.")              \
    X(log_records_total,        COUNTER, "Records written to the log.")                            \
    X(log_bytes_total,          COUNTER, "Bytes written to the log.")                              \
    X(log_batches_total,        COUNTER, "Writes of records to the log, of one or many.")          \
    X(staleness_clocks,         CLOCKS,  "Step of a push minus min clock when it pulled.")         \
    X(apply_seconds,            SECONDS, "Applying one pushed part to its pages.")                 \
    X(log_sync_seconds,         SECONDS, "Waiting for the disk to have a batch of the log.")
/* clang-format on */

#endif
