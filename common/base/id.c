/* id.c — see id.h. */
#include "base/id.h"

void ps_id_text(const struct ps_id *id, char text[PS_ID_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    if (id == NULL || text == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof(id->bytes); i++) {
        text[2 * i] = digits[id->bytes[i] >> 4];
        text[2 * i + 1] = digits[id->bytes[i] & 15u];
    }
    text[PS_ID_TEXT_BYTES - 1] = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool ps_id_parse(const char *text, struct ps_id *ret)
{
    if (text == NULL || ret == NULL || strlen(text) != PS_ID_TEXT_BYTES - 1) {
        return false;
    }
    for (size_t i = 0; i < sizeof(ret->bytes); i++) {
        int high = digit(text[2 * i]);
        int low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret->bytes[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

bool ps_id_from(const uint8_t *data, size_t n_bytes, struct ps_id *ret)
{
    if (n_bytes != sizeof(ret->bytes)) {
        return false;
    }
    memcpy(ret->bytes, data, n_bytes);
    return true;
}
