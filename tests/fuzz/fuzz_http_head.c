/* fuzz_http_head.c -- the strict reading of header blocks, and URLs.
 *
 * The bytes are a header block as a client might send it; it is treated the way libmicrohttpd does
 * (line ends and the first colon of a line become NULs) and also read as it stands. Whatever is
 * accepted must be made of tokens and clean values inside the block, name each framing header once,
 * and not be framed in two ways. */
#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"
#include "net/client.h"
#include "net/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_the_library_leaves_it(char *p, size_t n)
{
    bool in_name = true;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n') {
            if (i > 0 && p[i - 1] == '\r')
                p[i - 1] = '\0';
            p[i] = '\0';
            in_name = true;
        } else if (p[i] == ':' && in_name) {
            p[i] = '\0';
            in_name = false;
        }
    }
}

static void check(struct arena *a, const char *block, size_t n, bool http_1_1)
{
    struct head head;
    if (head_read(a, block, n, http_1_1, &head))
        return;
    size_t lengths, codings, hosts;
    struct str length = http_header_get(&head.headers, "Content-Length", &lengths);
    http_header_get(&head.headers, "Transfer-Encoding", &codings);
    http_header_get(&head.headers, "Host", &hosts);
    assert(lengths <= 1 && codings <= 1 && hosts <= 1 && lengths + codings <= 1);
    assert(!http_1_1 || hosts == 1);
    assert(head.chunked == (codings == 1));
    assert((head.content_length >= 0) == (length.p != NULL));
    for (size_t i = 0; i < head.headers.count; i++) {
        struct http_header h = head.headers.items[i];
        assert(h.name.p >= block && h.value.p + h.value.n <= block + n);
        assert(head_is_token(h.name));
        assert(h.value.n == 0 ||
               (!memchr(h.value.p, '\0', h.value.n) && !memchr(h.value.p, '\r', h.value.n) &&
                !memchr(h.value.p, '\n', h.value.n)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 16384)
        return 0;
    ARENA_AUTO a = arena_new(8192);
    char *block = malloc(size); /* its own, so that a sanitizer sees the ends */
    if (!block)
        abort();
    memcpy(block, data, size);
    check(a, block, size, true);
    as_the_library_leaves_it(block, size);
    check(a, block, size, true);
    check(a, block, size, false);
    free(block);

    struct url url;
    if (!url_parse((struct str) { (const char *)data, size }, &url, NULL)) {
        assert(url.host.n > 0 && url.port > 0 && url.port < 65536);
        assert(url.path_query.n > 0 && url.path_query.p[0] == '/');
        assert(!memchr(url.host.p, '@', url.host.n) && !memchr(url.host.p, '/', url.host.n));
    }
    return 0;
}
