#ifndef PS_COMMON_OS_LOOP_IMPL_H
#define PS_COMMON_OS_LOOP_IMPL_H
/*
 * os/loop_impl.h — the libuv loop inside a ps_loop, for the files of this folder.
 */
#include <uv.h>

#include "os/loop.h"

uv_loop_t *ps_loop_uv(struct ps_loop *loop);

#endif
