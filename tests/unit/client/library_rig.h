#ifndef PS_TESTS_UNIT_CLIENT_LIBRARY_RIG_H
#define PS_TESTS_UNIT_CLIENT_LIBRARY_RIG_H
/*
 * client/library_rig.h — a client of <ps/client.h> over a fake cluster, with both kinds of
 * executors: a thread of its own, and an inline one that the waiting thread pumps.
 */
#include "client/lib/client_impl.h"
#include "fake_cluster.h"

#define N_ELEMENTS 100000u
#define THREAD     0 /* Kinds of executors, as _i. */
#define INLINE     1

extern struct fake_cluster *cluster;
extern struct ps_client *client;
extern float *gradient; /* [N_ELEMENTS] i % 100 */
extern float *weights;  /* [N_ELEMENTS] */

/** A cluster of two servers, and what a client over it stands on. */
struct ps_client_ports library_ports(int kind);
void library_drop_ports(void);

/** A cluster and a client, a worker or of another kind. */
void library_start(int kind);
void library_start_as(int kind, enum ps_client_kind as);

/** Close the client, see that it has left, and drop the cluster. */
void library_stop(void);

/** Do something to the cluster, where it lives. */
void library_do(int kind, void (*run)(void));

/** Table "w" of N_ELEMENTS. */
struct ps_table library_define(void);

#endif
