/* utf8.c — see utf8.h. */
#include "base/utf8.h"

size_t ps_utf8_character(const char *text, size_t n_bytes, uint32_t *ret)
{
    if (n_bytes == 0) {
        return 0;
    }
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80) {
        *ret = first;
        return 1;
    }
    size_t n = first >= 0xf0 && first < 0xf8 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first >= 0xf8 || n > n_bytes) {
        return 0;
    }
    uint32_t code = first & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        unsigned char more = (unsigned char)text[i];
        if ((more & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (more & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    *ret = code;
    return code < least[n] || code > 0x10ffff || surrogate ? 0 : n;
}

bool ps_utf8_valid(const char *text, size_t n_bytes)
{
    uint32_t code = 0;
    for (size_t at = 0; at < n_bytes;) {
        size_t n = ps_utf8_character(text + at, n_bytes - at, &code);
        if (n == 0) {
            return false;
        }
        at += n;
    }
    return true;
}
