/* http.c -- what both sides of HTTP share: looking a header up, reason phrases. */
#include "net/http.h"

struct str http_header_get(const struct http_headers *h, const char *name, size_t *ret_count)
{
    struct str found = STR_NONE;
    size_t times = 0;
    struct str wanted = str_of(name);
    for (size_t i = 0; i < h->count; i++) {
        if (!str_eq_nocase(h->items[i].name, wanted))
            continue;
        if (times++ == 0)
            found = h->items[i].value;
    }
    if (ret_count)
        *ret_count = times;
    return found;
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } known[] = {
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 304, "Not Modified" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 406, "Not Acceptable" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 410, "Gone" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 422, "Unprocessable Content" },
        { 423, "Locked" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 502, "Bad Gateway" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].status == status)
            return known[i].reason;
    return "Unknown";
}
