#ifndef PS_TOOLS_PSCTL_REPLAY_H
#define PS_TOOLS_PSCTL_REPLAY_H
/*
 * psctl_replay.h — psctl replay: a server's tables made anew from its log and a snapshot, compared
 * with a later snapshot bit by bit. Only reads; the server may be running.
 */
#include "psctl_options.h"

/** Run the command and say how it went. @return the exit status */
int psctl_replay(const struct ps_conf *conf, const struct psctl_options *options);

#endif
