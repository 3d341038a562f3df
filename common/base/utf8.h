#ifndef PS_COMMON_BASE_UTF8_H
#define PS_COMMON_BASE_UTF8_H
/*
 * base/utf8.h — is a text UTF-8? What becomes JSON, YAML or a `string` on the wire has to be.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Bytes of the first character of `text`, of which `n_bytes` are there, and its code; 0: it is none
 * (or there are no bytes). Overlong forms and surrogates are none. Pure.
 */
size_t ps_utf8_character(const char *text, size_t n_bytes, uint32_t *ret);

/** Whether all of it is; the empty text is. */
bool ps_utf8_valid(const char *text, size_t n_bytes);

#endif
