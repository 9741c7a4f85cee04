/* cursor.c -- see cursor.h. Bytes: position, 8, big endian | CRC-32C over list NUL caller
 * position, 4. */
#include "api/cursor.h"

#define CURSOR_BYTES 12

static void put(unsigned char *to, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(v >> (8 * (n - 1 - i)));
}

static uint32_t check_of(const char *list, int64_t caller, const unsigned char position[8])
{
    unsigned char who[8];

    put(who, (uint64_t)caller, sizeof who);
    uint32_t crc = str_crc32c(0, (struct str) { list, strlen(list) + 1 });
    crc = str_crc32c(crc, (struct str) { (const char *)who, sizeof who });
    return str_crc32c(crc, (struct str) { (const char *)position, 8 });
}

struct str cursor_print(struct arena *a, const char *list, int64_t caller, int64_t position)
{
    unsigned char b[CURSOR_BYTES];

    put(b, (uint64_t)position, 8);
    put(b + 8, check_of(list, caller, b), 4);
    return str_base64url(a, (struct str) { (const char *)b, sizeof b });
}

enum err cursor_parse(struct arena *a, const char *list, int64_t caller, struct str text,
                      int64_t *ret_position)
{
    struct str bytes;
    unsigned char check[4];

    if (str_unbase64url(a, text, &bytes) || bytes.n != CURSOR_BYTES)
        return ERR_INVALID;
    put(check, check_of(list, caller, (const unsigned char *)bytes.p), 4);
    if (memcmp(check, bytes.p + 8, 4) != 0)
        return ERR_INVALID;

    uint64_t v = 0;
    for (size_t i = 0; i < 8; i++)
        v = v << 8 | (unsigned char)bytes.p[i];
    if (v > INT64_MAX)
        return ERR_INVALID;
    *ret_position = (int64_t)v;
    return ERR_OK;
}
