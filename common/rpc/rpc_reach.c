/*
 * rpc_reach.c — why somebody was not reached, in the words of people.
 *
 * gRPC says what it met, in sentences that change from version to version. Known pieces of them
 * are looked for; what is not known is shown as it came.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rpc/rpc_impl.h"

/* A piece of gRPC's sentence -> ours. The first that is found counts. */
static const struct {
    const char *piece;
    const char *words;
} reasons[] = {
    {"http1.x server", "it answers, but with HTTP/1: another program is there"},
    {"before receiving SETTINGS",
     "it accepts connections but says nothing: another program is there, or it is stopped"},
    {"Failed parsing HTTP/2", "it answers, but speaks no gRPC: another program is there"},
    {"Connection refused", "connection refused: nothing serves there"},
    {"No such file or directory", "there is no such socket: nothing serves there"},
    {"Permission denied", "permission denied"},
    {"Network is unreachable", "no route leads there"},
    {"No route to host", "no route leads there"},
    {"Socket closed", "it hangs up before it speaks gRPC: another program is there, or TLS"},
    {"Connection reset", "it hangs up before it speaks gRPC: another program is there, or TLS"},
    {"Broken pipe", "it hangs up before it speaks gRPC: another program is there, or TLS"},
};

#define NOT_RESOLVED  "DNS resolution failed"
#define NOT_CONNECTED "failed to connect"
#define HTTP_STATUS   "Received http2 header with status: "

/* What follows the last colon: C-ares' own words are there. */
static const char *last_words(const char *text)
{
    const char *colon = strrchr(text, ':');
    return colon != NULL && colon[1] == ' ' ? colon + 2 : text;
}

/* Of a connection that failed; gRPC's own sentence when it is not known. */
static const char *reason_of(const char *text)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(reasons); i++) {
        if (strstr(text, reasons[i].piece) != NULL) {
            return reasons[i].words;
        }
    }
    return text;
}

void ps_rpc_reach_explain(grpc_status_code code, uint32_t timeout_ms, struct ps_error *err)
{
    enum ps_status status = err->status;
    char text[PS_ERROR_TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "%s", err->text);
    const char *http = strstr(text, HTTP_STATUS);
    if (http != NULL) {
        (void)ps_fail(err, status,
                      "it answers with HTTP status %.3s, not with gRPC: another program is there",
                      http + strlen(HTTP_STATUS));
    } else if (code == GRPC_STATUS_UNIMPLEMENTED) {
        (void)ps_fail(err, status, "it speaks gRPC, but is no ps-server: %.100s", text);
    } else if (code == GRPC_STATUS_DEADLINE_EXCEEDED) {
        (void)ps_fail(err, status,
                      "no answer within %" PRIu32 ".%" PRIu32
                      " s: stopped, behind a firewall, or another program",
                      timeout_ms / 1000, timeout_ms % 1000 / 100);
    } else if (strstr(text, NOT_RESOLVED) != NULL) {
        (void)ps_fail(err, status, "the name does not resolve: %.100s", last_words(text));
    } else if (strstr(text, NOT_CONNECTED) != NULL) {
        (void)ps_fail(err, status, "%s", reason_of(text));
    }
}
