#ifndef PS_TOOLS_RUN_CLUSTER_H
#define PS_TOOLS_RUN_CLUSTER_H
/*
 * run_cluster.h — a cluster of processes, as the files that make it share it.
 *
 *   run_cluster.c  from the first server to the last: watch, finish, end
 *   run_start.c    children: what they are told, started, started again
 *   run_resume.c   a job that was begun before
 *
 * One thread and one loop.
 */
#include <stdbool.h>
#include <stdint.h>

#include "ask.h"
#include "os/loop.h"
#include "os/thread_exec.h"
#include "run.h"
#include "run_children.h"
#include "run_screen.h"

struct cluster {
    struct run *run;
    struct ps_loop *loop;
    struct ps_rpc *rpc;
    struct run_screen screen;
    struct run_children children;
    struct run_child *servers[PS_SERVERS_MAX];
    struct run_child *workers[PS_SESSIONS_MAX];
    struct ps_timer beat;
    int signal;       /* That we were asked to stop by; 0: none. */
    bool hurried;     /* More than once. */
    int exit_status;  /* Of what went wrong first; 0: nothing did. */
    uint64_t lost_ms; /* When a server was lost; 0: none was. */
    /* Asking the coordinator. */
    struct ps_channel *channel;
    struct ps_ask ask;
    uint64_t asked_ms;
    bool running;     /* Training has begun. */
    bool done;        /* The job is. */
    bool stopped;     /* Somebody else stopped the job. */
    uint64_t rate_ms; /* When the rate below was measured. */
    uint64_t rate_rows;
    double rate; /* Examples per second, lately. */
    /* The finish, on a thread of its own: signals are still heard. */
    struct ps_thread_exec *finisher;
    struct ps_mail finish_mail;
    struct ps_mail finished_mail;
    struct ps_error finish_err;
    bool finished;
};

/** Let things happen until something may have changed. */
void run_cluster_turn(struct cluster *c);

/** Note the first failure; the rest follows from it. */
void run_cluster_fail(struct cluster *c, int exit_status);

/** Nothing has failed, and nobody has asked us to stop. */
bool run_cluster_going(const struct cluster *c);

/** Ask the coordinator and wait for the answer, which is in c->ask. False: there was none. */
bool run_cluster_ask(struct cluster *c);

/** Servers one after the other: the others are told where the first one is. */
void run_start_servers(struct cluster *c);
void run_start_workers(struct cluster *c);

/**
 * A server that has ended is started again where it was.
 * @return false: it cannot be, or has been too often
 */
bool run_start_again(struct cluster *c, uint32_t index);

/** Does a server that ends have anything to come back with? */
bool run_start_lasts(const struct run *run);

/**
 * What the servers have brought with them: a job that goes on, whose seed is ours then, or one that
 * is done. Says so.
 */
void run_resume(struct cluster *c);

#endif
