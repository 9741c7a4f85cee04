/* http.h -- what both sides of HTTP share: headers and limits. No library's type appears here or in
 * any header of net/. */
#ifndef FENPAY_HTTP_H
#define FENPAY_HTTP_H

#include "base/arena.h"
#include "base/str.h"

struct http_header {
    struct str name, value;
};

struct http_headers {
    const struct http_header *items;
    size_t count;
};

/* The value of the header with that name (any case); STR_NONE when absent. *ret_count (may be NULL)
 * says how often it stands there. */
struct str http_header_get(const struct http_headers *h, const char *name, size_t *ret_count);

/* "OK", "Not Found", … */
const char *http_reason(int status);

#endif
