/* url.c -- absolute http(s) URLs, and addresses we are willing to call.
 *
 * Webhook URLs come from outside: before the first byte is sent their host is resolved once, every
 * address is looked at, and the chosen one is pinned, so that a name cannot point elsewhere a
 * moment later. */
#include "net/client.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#define URL_MAX  2048
#define HOST_MAX 253

static enum err bad(struct err_info *info, const char *why)
{
    return err_field(info, ERR_INVALID, "url", "%s", why);
}

/* Letters, digits, '-', '_', '.'; in brackets an IPv6 literal, which is returned without them. */
static enum err read_host(struct str text, struct str *ret, struct err_info *info)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    if (text.n == 0 || text.n > HOST_MAX)
        return bad(info, "the URL has no host, or one that is too long");
    if (text.p[0] != '[') {
        if (!str_all_of(text, name) || text.p[0] == '.' || text.p[0] == '-')
            return bad(info, "the host has characters that no name has");
        *ret = text;
        return ERR_OK;
    }
    char literal[INET6_ADDRSTRLEN + 1];
    struct in6_addr address;
    if (text.n < 4 || text.n - 2 >= sizeof(literal) || text.p[text.n - 1] != ']')
        return bad(info, "the host is not an IPv6 address");
    memcpy(literal, text.p + 1, text.n - 2);
    literal[text.n - 2] = '\0';
    if (inet_pton(AF_INET6, literal, &address) != 1)
        return bad(info, "the host is not an IPv6 address");
    *ret = str_sub(text, 1, text.n - 2);
    return ERR_OK;
}

static enum err read_port(struct str text, int *ret, struct err_info *info)
{
    int64_t port;
    if (text.n == 0 || str_int64(text, &port) || port < 1 || port > 65535)
        return bad(info, "the port is not a number from 1 to 65535");
    *ret = (int)port;
    return ERR_OK;
}

enum err url_parse(struct str text, struct url *ret, struct err_info *info)
{
    struct url url = { 0 };
    if (text.n > URL_MAX)
        return bad(info, "the URL is too long");
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] >= 0x7f || text.p[i] == '\\')
            return bad(info, "the URL has blanks, control characters, backslashes or non-ASCII");
    if (str_eq_nocase(str_sub(text, 0, 8), STR("https://"))) {
        url.scheme = str_sub(text, 0, 5);
        url.port = 443;
    } else if (str_eq_nocase(str_sub(text, 0, 7), STR("http://"))) {
        url.scheme = str_sub(text, 0, 4);
        url.port = 80;
    } else {
        return bad(info, "the URL does not begin with http:// or https://");
    }
    struct str rest = str_sub(text, url.scheme.n + 3, text.n);
    size_t n = 0;
    while (n < rest.n && !strchr("/?#", rest.p[n]))
        n++;
    struct str authority = str_sub(rest, 0, n);
    url.path_query = str_sub(rest, n, rest.n);
    if (n < rest.n && rest.p[n] == '?')
        return bad(info, "the URL needs a '/' before its query");
    if (memchr(text.p, '#', text.n))
        return bad(info, "the URL has a fragment");
    if (url.path_query.n == 0)
        url.path_query = STR("/");
    if (authority.n > 0 && memchr(authority.p, '@', authority.n))
        return bad(info, "the URL has user information");

    size_t host_n = authority.n; /* the port's colon stands behind the last bracket */
    for (size_t i = authority.n; i > 0 && authority.p[i - 1] != ']'; i--)
        if (authority.p[i - 1] == ':')
            host_n = i - 1;
    enum err e = read_host(str_sub(authority, 0, host_n), &url.host, info);
    if (!e && host_n < authority.n)
        e = read_port(str_sub(authority, host_n + 1, authority.n), &url.port, info);
    if (e)
        return e;
    *ret = url;
    return ERR_OK;
}

struct range {
    uint8_t bytes[16];
    int bits;
};

static bool in_ranges(const uint8_t *address, const struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int whole = ranges[i].bits / 8, rest = ranges[i].bits % 8;
        if (memcmp(address, ranges[i].bytes, (size_t)whole) != 0)
            continue;
        if (rest == 0 || ((address[whole] ^ ranges[i].bytes[whole]) >> (8 - rest)) == 0)
            return true;
    }
    return false;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The IANA registry of special-purpose addresses, and multicast. */
static bool is_public_v4(const uint8_t *address)
{
    static const struct range special[] = {
        { { 0 }, 8 },
        { { 10 }, 8 },
        { { 100, 64 }, 10 },
        { { 127 }, 8 },
        { { 169, 254 }, 16 },
        { { 172, 16 }, 12 },
        { { 192, 0, 0 }, 24 },
        { { 192, 0, 2 }, 24 },
        { { 192, 31, 196 }, 24 },
        { { 192, 52, 193 }, 24 },
        { { 192, 88, 99 }, 24 },
        { { 192, 168 }, 16 },
        { { 192, 175, 48 }, 24 },
        { { 198, 18 }, 15 },
        { { 198, 51, 100 }, 24 },
        { { 203, 0, 113 }, 24 },
        { { 224 }, 4 },
        { { 240 }, 4 },
    };
    return !in_ranges(address, special, COUNT(special));
}

static bool is_public_v6(const uint8_t *address)
{
    static const struct range mapped = { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff }, 96 };
    static const struct range nat64 = { { 0, 0x64, 0xff, 0x9b }, 96 };
    static const struct range unicast = { { 0x20 }, 3 };
    static const struct range special[] = {
        { { 0x20, 0x01, 0x00 }, 23 },             /* protocol assignments: Teredo, ORCHID, … */
        { { 0x20, 0x01, 0x0d, 0xb8 }, 32 },       /* documentation */
        { { 0x20, 0x02 }, 16 },                   /* 6to4: any IPv4 address inside */
        { { 0x26, 0x20, 0x00, 0x4f, 0x80 }, 48 }, /* AS112 */
        { { 0x3f, 0xff, 0x00 }, 20 },             /* documentation */
    };
    if (in_ranges(address, &mapped, 1) || in_ranges(address, &nat64, 1))
        return is_public_v4(address + 12);
    return in_ranges(address, &unicast, 1) && !in_ranges(address, special, COUNT(special));
}

static bool is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return is_public_v4((const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr);
    if (address->sa_family == AF_INET6)
        return is_public_v6((const uint8_t *)&((const struct sockaddr_in6 *)address)->sin6_addr);
    return false;
}

enum err resolve_public(struct str host, bool public_only, struct arena *a, struct str *ret_address,
                        struct err_info *info)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    if (host.n == 0 || host.n > HOST_MAX || memchr(host.p, '\0', host.n))
        return err_field(info, ERR_INVALID, "url", "the host is empty or too long");
    int failed = getaddrinfo(str_cstr(a, host), NULL, &hints, &found);
    if (failed || !found)
        return err_field(info, failed == EAI_AGAIN ? ERR_RETRY : ERR_NOT_FOUND, "url",
                         STR_FMT ": %s", STR_ARG(host), gai_strerror(failed));
    char text[INET6_ADDRSTRLEN];
    bool denied = getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), NULL, 0,
                              NI_NUMERICHOST) != 0;
    for (struct addrinfo *i = found; i && public_only; i = i->ai_next)
        denied = denied || !is_public(i->ai_addr);
    freeaddrinfo(found);
    if (denied)
        return err_field(info, ERR_DENIED, "url", STR_FMT " has an address that is not public",
                         STR_ARG(host));
    *ret_address = str_dup(a, str_of(text));
    return ERR_OK;
}
