#ifndef PS_WORKER_DATA_HASH_H
#define PS_WORKER_DATA_HASH_H
/*
 * data/hash.h — 64 bits out of some bytes: keys of texts, identities of files. Pure, not secret.
 *
 * Part of what a saved model means: the key of a text must never change.
 */
#include <stddef.h>
#include <stdint.h>

/** Chain the bytes and their number into `hash`; start with any number. */
uint64_t ps_hash_bytes(uint64_t hash, const void *data, size_t n_bytes);

#endif
