/* channel_testing.h -- a WeChat account of made-up keys, the channel's half of them to sign with,
 * and a transport that answers from a script. */
#ifndef FENPAY_CHANNEL_TESTING_H
#define FENPAY_CHANNEL_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/env.h"
#include "channel/registry.h"
#include "channel/wechat/wechat.h"

#define NOW_MS 1700000000000LL
#define SERIAL "5157F09EFDC096DE15EBE81A47057A7232F1B8E1"
#define APIV3  "0123456789abcdefABCDEF9876543210"

struct world {
    struct arena *arena; /* of the file */
    struct env_test env;
    struct rsa_key *merchant, *platform;
    struct str merchant_pem, merchant_cert, platform_cert;
    struct account *account;
};

void world_open(struct world *w);
void world_close(struct world *w);
struct account_config world_config(struct world *w);

enum sign_mode { SIGN_GOOD, SIGN_NONE, SIGN_WRONG, SIGN_UNKNOWN_SERIAL, SIGN_STALE, SIGN_PROBE };
/* The four headers over `body`, as the channel makes them at env's time. */
struct http_headers world_sign(struct world *w, struct arena *a, struct str body,
                               enum sign_mode mode);
/* One header's value taken away (value p NULL) or replaced. */
struct http_headers world_with(struct arena *a, struct http_headers h, const char *name,
                               struct str value);
/* The envelope of a callback around `plain`, encrypted under `key`. */
struct str world_envelope(struct arena *a, const char *event_type, const char *original_type,
                          struct str plain, const char *key);

struct scripted {
    struct transport transport; /* first */
    struct world *world;
    enum http_outcome outcome;
    int status;
    struct str body;
    enum sign_mode mode;
    struct http_call call; /* the last one; texts in the arena of the call */
    int calls;
};
void scripted_answer(struct scripted *s, struct world *w, int status, const char *body,
                     enum sign_mode mode);

#define assert_str(actual, expected)                                                               \
    do {                                                                                           \
        struct str actual_ = (actual);                                                             \
        struct str expected_ = str_of(expected);                                                   \
        if (!str_eq(actual_, expected_))                                                           \
            fail_msg("\"" STR_FMT "\" is not \"" STR_FMT "\"", STR_ARG(actual_),                   \
                     STR_ARG(expected_));                                                          \
    } while (0)

static inline bool contains(struct str s, const char *needle)
{
    return s.n && memmem(s.p, s.n, needle, strlen(needle)) != NULL;
}

#endif
