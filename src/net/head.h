/* head.h -- a strict second reading of a request's header block.
 *
 * libmicrohttpd 0.9.75 reads headers leniently: bare LF, folded lines (which rename the header),
 * blanks before the colon, NUL in values, an empty name that ends the block early. It leaves the
 * bytes where they were, though: every line end became NULs (two for CRLF, one for a bare LF) and
 * the first ':' of a line became a NUL. That is enough to tell a clean block from any other. Pure:
 * bytes in, verdict out. */
#ifndef FENPAY_HEAD_H
#define FENPAY_HEAD_H

#include "net/http.h"

#define HEAD_HEADERS_MAX 100

struct head {
    struct http_headers headers;
    int64_t content_length; /* -1: none */
    bool chunked;
};

/* Reads the `n` bytes at `block`, which begin behind the request line and end with the empty line,
 * as libmicrohttpd left them. The headers are views into `block`. Returns NULL, or what is wrong.
 * `http_1_1`: Host is mandatory. */
const char *head_read(struct arena *a, const char *block, size_t n, bool http_1_1,
                      struct head *ret);

/* RFC 9110 token: methods and header names. */
bool head_is_token(struct str s);

/* A request target we are willing to look at: origin form, printable ASCII, no fragment. */
bool head_is_target(struct str s);

/* Another system's request id: 1..64 of letters, digits and "._-". */
bool head_is_request_id(struct str s);
/* W3C trace context, version 00, not all zero. */
bool head_is_traceparent(struct str s);

#endif
