/* head.c -- a strict second reading of a request's header block. See head.h for why it is needed
 * and how it can work. */
#include "net/head.h"

#define TOKEN_PUNCTUATION "!#$%&'*+-.^_`|~"
#define HEX_LOWER         "0123456789abcdef"

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_token_char(char c)
{
    return is_alnum(c) || (c != '\0' && strchr(TOKEN_PUNCTUATION, c));
}

bool head_is_token(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_token_char(s.p[i]))
            return false;
    return s.n > 0;
}

bool head_is_target(struct str s)
{
    if (s.n == 0 || s.p[0] != '/')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] >= 0x7f || s.p[i] == '#')
            return false;
    return true;
}

bool head_is_request_id(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_alnum(s.p[i]) && s.p[i] != '.' && s.p[i] != '_' && s.p[i] != '-')
            return false;
    return s.n > 0 && s.n <= 64;
}

bool head_is_traceparent(struct str s)
{
    if (s.n != 55 || !str_starts(s, STR("00-")) || s.p[35] != '-' || s.p[52] != '-')
        return false;
    struct str trace = str_sub(s, 3, 32), parent = str_sub(s, 36, 16), flags = str_sub(s, 53, 2);
    return str_all_of(trace, HEX_LOWER) && !str_all_of(trace, "0") &&
           str_all_of(parent, HEX_LOWER) && !str_all_of(parent, "0") &&
           str_all_of(flags, HEX_LOWER);
}

static bool is_value(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

/* One line from `*at`; moves it behind the line end. */
static const char *read_line(const char **at, const char *end, struct http_header *ret)
{
    const char *p = *at;
    while (p < end && is_token_char(*p))
        p++;
    if (p == *at || p == end || *p != '\0')
        return "a header name is not a token, or a line is folded";
    ret->name = (struct str) { *at, (size_t)(p - *at) };

    const char *value = ++p;
    while (p < end && *p != '\0')
        p++;
    if (end - p < 2 || p[1] != '\0')
        return "a header line ends without CRLF, or has a NUL in it";
    ret->value = str_trim((struct str) { value, (size_t)(p - value) });
    if (!is_value(ret->value))
        return "a header value has control characters";
    *at = p + 2;
    return NULL;
}

/* The headers that decide where a request ends, and those we read ourselves, may stand there once.
 */
static const char *check_single(const struct http_headers *headers)
{
    static const char *const single[] = { "Host",
                                          "Content-Length",
                                          "Transfer-Encoding",
                                          "Content-Type",
                                          "Content-Encoding",
                                          "Authorization",
                                          "Expect",
                                          NULL };
    for (size_t i = 0; single[i]; i++) {
        size_t times;
        http_header_get(headers, single[i], &times);
        if (times > 1)
            return "a header stands there twice";
    }
    return NULL;
}

static const char *read_framing(bool http_1_1, struct head *ret)
{
    const struct http_headers *headers = &ret->headers;
    struct str host = http_header_get(headers, "Host", NULL);
    struct str length = http_header_get(headers, "Content-Length", NULL);
    struct str coding = http_header_get(headers, "Transfer-Encoding", NULL);

    if (http_1_1 && !host.p)
        return "no Host header";
    if (coding.p) {
        if (length.p)
            return "both Content-Length and Transfer-Encoding";
        if (!http_1_1 || !str_eq_nocase(coding, STR("chunked")))
            return "a Transfer-Encoding other than chunked";
        ret->chunked = true;
    }
    ret->content_length = -1;
    if (length.p) {
        /* Leading zeros are legal in HTTP but of no use to an honest client. */
        if (!str_all_of(length, "0123456789") || str_int64(length, &ret->content_length))
            return "Content-Length is not a number";
    }
    return NULL;
}

const char *head_read(struct arena *a, const char *block, size_t n, bool http_1_1, struct head *ret)
{
    struct http_header *items = arena_raw(a, HEAD_HEADERS_MAX * sizeof(*items));
    size_t count = 0;
    const char *p = block, *end = block + n;

    *ret = (struct head) { .content_length = -1 };
    while (end - p >= 2 && !(p[0] == '\0' && p[1] == '\0')) {
        if (count == HEAD_HEADERS_MAX)
            return "too many headers";
        const char *wrong = read_line(&p, end, &items[count]);
        if (wrong)
            return wrong;
        count++;
    }
    if (end - p != 2)
        return "the headers do not end with an empty line";
    ret->headers = (struct http_headers) { items, count };

    const char *wrong = check_single(&ret->headers);
    return wrong ? wrong : read_framing(http_1_1, ret);
}
