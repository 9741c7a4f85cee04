/* Who asks: the signature's worked vector (also in docs/api.md) with the openssl command line as
 * peer, signed requests over HTTP, and the life of keys. */
#include "api_world.h"

#include "api/call.h"
#include "api/waiters.h"
#include "support/shared.h"

#define VECTOR_SECRET "KqD3mB0sYt7w2Vn5pXc8Zr1uJf4hLg6aEi9oRdTyQWk"
#define VECTOR_BODY                                                                                \
    "{\"merchant_order_no\":\"A-1\",\"user_id\":\"u1\",\"subject\":\"Tickets\",\"amount\":8800}"
#define VECTOR_SIGNATURE "1ce040cc8465af0ef8cb326c122cb79ddb559f4d2f450a3071ec0d72b1653c9e"

static const struct signed_parts vector = {
    .method = STR_INIT("POST"),
    .target = STR_INIT("/v1/orders"),
    .timestamp = STR_INIT("1780000000"),
    .nonce = STR_INIT("n-0123456789abcdef"),
    .body = STR_INIT(VECTOR_BODY),
};

static int open_world(void **state)
{
    struct api_world *t = calloc(1, sizeof *t);
    api_world_open(t, 0, api_routes);
    *state = t;
    return 0;
}

static int close_world(void **state)
{
    api_world_close(*state);
    free(*state);
    return 0;
}

static void the_worked_vector_holds(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    struct sha256 mac = auth_signature(a, STR(VECTOR_SECRET), &vector);
    assert_str(str_hex(a, mac.b, sizeof mac.b), VECTOR_SIGNATURE);

    struct str docs = file_read(a, FENPAY_SOURCE_ROOT "/docs/api.md");
    assert_non_null(docs.p);
    assert_non_null(memmem(docs.p, docs.n, VECTOR_SIGNATURE, strlen(VECTOR_SIGNATURE)));
    assert_non_null(memmem(docs.p, docs.n, VECTOR_BODY, strlen(VECTOR_BODY)));
}

static void openssl_makes_the_same_signature(void **state)
{
    (void)state;
    const char *command =
        "h=$(printf %s '" VECTOR_BODY "' | openssl dgst -sha256 -r | cut -d' ' -f1);"
        "printf 'POST\\n/v1/orders\\n1780000000\\nn-0123456789abcdef\\n%s\\n' \"$h\" |"
        " openssl dgst -sha256 -hmac " VECTOR_SECRET " -r | cut -d' ' -f1";
    char hex[65] = "";
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fread(hex, 1, 64, f), 64);
    pclose(f);
    assert_string_equal(hex, VECTOR_SIGNATURE);
}

/* ---- over HTTP ---- */

struct signing {
    struct str key_id, secret;
    int64_t at_s;
    const char *nonce, *method, *target, *body;
};

static struct signing new_key(struct api_world *t, const char *nonce)
{
    struct err_info info = { 0 };
    struct signing s = { .at_s = env_now_ms(t->w.env) / 1000,
                         .nonce = nonce,
                         .method = "GET",
                         .target = "/v1/orders?limit=1" };
    if (caller_add_key(&t->centre, STR("shop"), true, MASTER_KEY, t->w.arena, &s.key_id, &s.secret,
                       &info)) {
        print_error("%s\n", info.text);
        fail();
    }
    return s;
}

/* The four headers for what `s` says. */
static const char *sign(struct api_world *t, const struct signing *s)
{
    struct arena *a = t->w.arena;
    struct signed_parts parts = {
        .method = str_of(s->method),
        .target = str_of(s->target),
        .timestamp = str_printf(a, "%lld", (long long)s->at_s),
        .nonce = str_of(s->nonce),
        .body = str_of(s->body),
    };
    struct sha256 mac = auth_signature(a, s->secret, &parts);
    return str_printf(a,
                      "X-Fenpay-Key: %s\r\nX-Fenpay-Timestamp: %s\r\nX-Fenpay-Nonce: %s\r\n"
                      "X-Fenpay-Signature: %s\r\n",
                      s->key_id.p, parts.timestamp.p, s->nonce, str_hex(a, mac.b, sizeof mac.b).p)
        .p;
}

static int send_signed(struct api_world *t, const struct signing *s, const char *headers)
{
    return api_ask(t, NULL, s->method, s->target, headers, s->body);
}

static void a_signed_request_is_good_once(void **state)
{
    struct api_world *t = *state;
    struct signing s = new_key(t, "nonce-get-1");
    const char *headers = sign(t, &s);
    assert_int_equal(send_signed(t, &s, headers), 200);
    assert_int_equal(send_signed(t, &s, headers), 401);
    assert_non_null(strstr(t->answer.body, "nonce"));

    s = (struct signing) { s.key_id, s.secret,     s.at_s,     "nonce-post-1",
                           "POST",   "/v1/orders", VECTOR_BODY };
    headers = sign(t, &s);
    assert_int_equal(send_signed(t, &s, headers), 201);
    assert_int_equal(send_signed(t, &s, headers), 401);
    /* Also under another timestamp: the nonce is what is remembered. */
    s.at_s++;
    assert_int_equal(send_signed(t, &s, sign(t, &s)), 401);
    s.nonce = "nonce-post-2";
    assert_int_equal(send_signed(t, &s, sign(t, &s)), 200);
    assert_int_equal(ASK(&t->w, "SELECT COUNT(*) FROM caller_nonce"), 3);

    /* Nonces whose time is over make room. */
    env_test_advance(&t->w.test, 12 * 60 * 1000);
    s.at_s += 12 * 60;
    s.nonce = "nonce-post-3";
    assert_int_equal(send_signed(t, &s, sign(t, &s)), 200);
    assert_int_equal(ASK(&t->w, "SELECT COUNT(*) FROM caller_nonce"), 1);
    assert_int_equal(caller_revoke_key(&t->centre, s.key_id, NULL), ERR_OK);
}

/* The request is suspended twice: for its nonce, then for the payment. */
static void a_signed_long_poll_waits_for_both(void **state)
{
    struct api_world *t = *state;
    struct signing s = new_key(t, "nonce-poll-1");
    struct money amount;
    assert_ok(money_of(1, STR("CNY"), &amount));
    flow_fake.payment = (struct payment) {
        .no = number_make(NUMBER_PAYMENT, 5, mint_ids(t->w.mint, 1)),
        .caller = t->caller,
        .status = PAYMENT_PAYING,
        .amount = amount,
        .refunding = amount,
        .refunded = amount,
    };
    s.target = str_printf(t->w.arena, "/v1/payments/%s?wait_s=2",
                          number_str(t->w.arena, flow_fake.payment.no).p)
                   .p;
    struct str r = api_request(t, NULL, s.method, s.target, sign(t, &s), NULL);
    int fd = test_connect(t->port);
    test_send(fd, r.p, r.n);
    for (int i = 0; i < 5000 && !waiters_count(t->api->waiters); i++)
        api_get(t, "/v1/orders/none");
    assert_int_equal(waiters_count(t->api->waiters), 1);
    env_test_advance(&t->w.test, 2001);
    api_get(t, "/v1/orders/none");
    test_read(fd, false, &t->answer);
    close(fd);
    assert_int_equal(t->answer.status, 200);
    assert_str(api_member(t, "refund_state"), "refunding");
    assert_int_equal(caller_revoke_key(&t->centre, s.key_id, NULL), ERR_OK);
}

static void changed_or_stale_requests_are_refused(void **state)
{
    struct api_world *t = *state;
    struct signing s = new_key(t, "nonce-bad-1");
    const char *good = sign(t, &s);
    struct signing other = s;

    other.target = "/v1/orders?limit=2";
    assert_int_equal(send_signed(t, &other, good), 401);
    other = (struct signing) { s.key_id, s.secret, s.at_s, s.nonce, "POST", "/v1/orders", "{}" };
    assert_int_equal(send_signed(t, &other, good), 401);

    static const int64_t off_s[] = { -301, 301, -86400, 86400 };
    for (size_t i = 0; i < COUNT(off_s); i++) {
        other = s;
        other.at_s += off_s[i];
        assert_int_equal(send_signed(t, &other, sign(t, &other)), 401);
        assert_non_null(strstr(t->answer.body, "our clock, which says 178"));
    }
    other = s;
    other.nonce = "short";
    assert_int_equal(send_signed(t, &other, sign(t, &other)), 401);
    other = s;
    other.key_id = STR("0123456789abcdef");
    assert_int_equal(send_signed(t, &other, sign(t, &other)), 401);
    other.key_id = STR("fp_");
    assert_int_equal(send_signed(t, &other, sign(t, &other)), 401);
    assert_int_equal(api_ask(t, NULL, "GET", s.target, "X-Fenpay-Key: 0123456789abcdef\r\n", NULL),
                     401);
    struct str twice = str_printf(t->w.arena, "%sX-Fenpay-Nonce: nonce-bad-2\r\n", good);
    int status = send_signed(t, &s, twice.p);
    assert_true(status == 401 || status == 400);

    assert_int_equal(ASK(&t->w, "SELECT COUNT(*) FROM caller_nonce WHERE nonce LIKE 'nonce-bad%'"),
                     0);
    s.at_s += 299;
    assert_int_equal(send_signed(t, &s, sign(t, &s)), 200);
    assert_int_equal(caller_revoke_key(&t->centre, s.key_id, NULL), ERR_OK);
}

/* Commands in another process change the table only: the cache must not outlive its time. */
static void two_keys_while_rotating_and_none_after_revoking(void **state)
{
    struct api_world *t = *state;
    struct err_info info = { 0 };
    struct str id, key, third;
    const char *first;
    api_world_caller(t, "rotating", PERMISSION_READ, &first);
    assert_ok(
        caller_add_key(&t->centre, STR("rotating"), false, STR(""), t->w.arena, &id, &key, &info));
    assert_int_equal(api_ask(t, first, "GET", "/v1/orders", "", NULL), 200);
    assert_int_equal(api_ask(t, key.p, "GET", "/v1/orders", "", NULL), 200);
    assert_int_equal(caller_add_key(&t->centre, STR("rotating"), false, STR(""), t->w.arena, &third,
                                    &third, &info),
                     ERR_CONFLICT);
    assert_int_equal(caller_add_key(&t->centre, STR("nobody"), false, STR(""), t->w.arena, &third,
                                    &third, &info),
                     ERR_NOT_FOUND);

    assert_ok(caller_revoke_key(&t->centre, id, &info));
    env_test_advance(&t->w.test, AUTH_CACHE_MS + 1);
    assert_int_equal(api_ask(t, key.p, "GET", "/v1/orders", "", NULL), 401);
    assert_int_equal(api_ask(t, first, "GET", "/v1/orders", "", NULL), 200);
    assert_ok(
        caller_add_key(&t->centre, STR("rotating"), false, STR(""), t->w.arena, &id, &key, &info));

    assert_ok(caller_set_state(&t->centre, STR("rotating"), false, &info));
    env_test_advance(&t->w.test, AUTH_CACHE_MS + 1);
    assert_int_equal(api_ask(t, first, "GET", "/v1/orders", "", NULL), 401);
    assert_ok(caller_set_state(&t->centre, STR("rotating"), true, &info));
    assert_int_equal(api_ask(t, first, "GET", "/v1/orders", "", NULL), 200);
    assert_int_equal(caller_revoke_key(&t->centre, STR("0000000000000000"), &info), ERR_NOT_FOUND);
}

static void nothing_of_a_key_stands_in_the_database(void **state)
{
    struct api_world *t = *state;
    struct signing s = new_key(t, "nonce");
    assert_int_equal(ASK(&t->w, "SELECT COUNT(*) FROM caller_key WHERE kind = 1 AND"
                                " (LENGTH(hash) <> 32 OR secret IS NOT NULL)"),
                     0);
    assert_int_equal(ASK(&t->w, "SELECT COUNT(*) FROM caller_key WHERE kind = 2 AND"
                                " (hash IS NOT NULL OR secret NOT LIKE 'enc:v1:%')"),
                     0);
    assert_int_equal(caller_revoke_key(&t->centre, s.key_id, NULL), ERR_OK);
}

/* A rule may run twice: the second run must know its own nonce from a replay. */
static void a_nonce_rule_that_runs_twice_knows_its_own_row(void **state)
{
    struct api_world *t = *state;
    struct identity who = { .caller = { .id = 7 }, .nonce = STR("nonce-twice") };
    struct nonce_use first, replay;
    auth_nonce_init(&first, t->w.env, &who, env_now_ms(t->w.env));
    auth_nonce_init(&replay, t->w.env, &who, env_now_ms(t->w.env));
    world_run(&t->w, auth_nonce_rule, &first);
    assert_false(first.replayed);
    world_run(&t->w, auth_nonce_rule, &first);
    assert_false(first.replayed);
    world_run(&t->w, auth_nonce_rule, &replay);
    assert_true(replay.replayed);
}

int main(void)
{
#define T(test) cmocka_unit_test(test)
    const struct CMUnitTest tests[] = {
        T(the_worked_vector_holds),
        T(openssl_makes_the_same_signature),
        T(a_signed_request_is_good_once),
        T(a_signed_long_poll_waits_for_both),
        T(changed_or_stale_requests_are_refused),
        T(two_keys_while_rotating_and_none_after_revoking),
        T(nothing_of_a_key_stands_in_the_database),
        T(a_nonce_rule_that_runs_twice_knows_its_own_row),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_world, close_world);
}
