/* Callers, keys and webhooks over HTTP; events, replay and incidents; the operations listener. */
#include "api_world.h"

#include "bus/event.h"
#include "core/incident/incident.h"
#include "crypto/secret.h"

static const char *admin;

static int open_world(void **state)
{
    struct api_world *t = calloc(1, sizeof *t);
    api_world_open(t, 0, api_routes);
    api_world_caller(t, "root", PERMISSION_ADMIN | PERMISSION_READ, &admin);
    *state = t;
    return 0;
}

static int close_world(void **state)
{
    api_world_close(*state);
    free(*state);
    return 0;
}

static int post(struct api_world *t, const char *target, const char *body)
{
    return api_ask(t, admin, "POST", target, "", body);
}

static int get(struct api_world *t, const char *target)
{
    return api_ask(t, admin, "GET", target, "", NULL);
}

static void a_caller_is_made_used_and_ended(void **state)
{
    struct api_world *t = *state;
    assert_int_equal(
        post(t, "/v1/callers", "{\"name\":\"web\",\"permissions\":[\"read\",\"pay\"]}"), 201);
    const char *key = api_member(t, "key").p;
    assert_str(api_member(t, "permissions"), "[\"read\",\"pay\"]");
    assert_int_equal(api_ask(t, key, "GET", "/v1/orders", "", NULL), 200);

    assert_int_equal(post(t, "/v1/callers", "{\"name\":\"web\",\"permissions\":[\"read\"]}"), 409);
    assert_str(api_member(t, "code"), "ALREADY_EXISTS");
    assert_str(api_member(t, "field"), "name");
    assert_int_equal(post(t, "/v1/callers", "{\"name\":\"x\",\"permissions\":[\"root\"]}"), 400);
    assert_int_equal(post(t, "/v1/callers", "{\"name\":\"X Y\",\"permissions\":[\"read\"]}"), 400);
    assert_str(api_member(t, "field"), "name");

    assert_int_equal(post(t, "/v1/callers/web/keys", "{\"kind\":\"bearer\"}"), 201);
    const char *second = api_member(t, "key").p, *id = api_member(t, "key_id").p;
    assert_int_equal(post(t, "/v1/callers/web/keys", "{\"kind\":\"bearer\"}"), 409);
    assert_str(api_member(t, "code"), "KEY_LIMIT");
    assert_int_equal(post(t, "/v1/callers/web/keys", "{\"kind\":\"hmac\"}"), 201);
    assert_int_equal(api_member(t, "secret").n, 43);
    assert_int_equal(post(t, "/v1/callers/web/keys", "{\"kind\":\"rsa\"}"), 400);
    assert_int_equal(post(t, "/v1/callers/none/keys", "{\"kind\":\"hmac\"}"), 404);

    assert_int_equal(api_ask(t, second, "GET", "/v1/orders", "", NULL), 200);
    assert_int_equal(post(t, str_printf(t->w.arena, "/v1/keys/%s/revoke", id).p, NULL), 200);
    assert_int_equal(api_ask(t, second, "GET", "/v1/orders", "", NULL), 401);
    assert_int_equal(post(t, "/v1/keys/0000000000000000/revoke", NULL), 404);

    assert_int_equal(post(t, "/v1/callers/web/rate", "{\"rate\":\"high\"}"), 200);
    assert_int_equal(post(t, "/v1/callers/web/rate", "{\"rate\":\"higher\"}"), 400);
    assert_str(api_member(t, "field"), "rate");
    assert_int_equal(post(t, "/v1/callers/none/rate", "{\"rate\":\"high\"}"), 404);

    assert_int_equal(post(t, "/v1/callers/web/disable", NULL), 200);
    assert_int_equal(api_ask(t, key, "GET", "/v1/orders", "", NULL), 401);
    assert_int_equal(post(t, "/v1/callers/web/enable", NULL), 200);
    assert_int_equal(api_ask(t, key, "GET", "/v1/orders", "", NULL), 200);
    assert_int_equal(get(t, "/v1/callers"), 200);
    assert_non_null(strstr(t->answer.body, "{\"name\":\"web\",\"permissions\":[\"read\",\"pay\"],"
                                           "\"rate\":\"high\",\"state\":\"on\",\"keys\":2}"));
    assert_int_equal(ASK(&t->w, "SELECT COUNT(*) FROM audit_log WHERE who = 'caller:root'"), 7);
}

SQL(secret_of, "SELECT secret FROM webhook WHERE id = ?");

struct stored {
    int64_t id;
    struct arena *arena;
    struct str secret;
};

static enum err secret_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct stored *s = arg;
    struct query *q = tx_select(tx, &secret_of, BINDS(bind_int(s->id)));
    if (query_row(q))
        s->secret = str_dup(s->arena, col_text(q, 0));
    return query_end(q, info);
}

/* What the bus will decrypt for signing, by the name both sides agreed on. */
static struct str stored_secret(struct api_world *t, const char *id)
{
    struct stored s = { .arena = t->w.arena };
    struct str plain;
    struct err_info info = { 0 };
    assert_ok(str_int64(str_of(id), &s.id));
    world_read(&t->w, secret_rule, &s);
    assert_ok(secret_decrypt(MASTER_KEY, str_printf(t->w.arena, "webhook:%s", id), s.secret,
                             t->w.arena, &plain, &info));
    return plain;
}

static void a_webhook_is_made_rotated_and_switched(void **state)
{
    struct api_world *t = *state;
    const char *body = "{\"url\":\"http://127.0.0.1:9/hook\",\"types\":[\"order.paid\"],"
                       "\"caller\":\"shop\"}";
    assert_int_equal(post(t, "/v1/webhooks", body), 201);
    const char *id = api_member(t, "webhook_id").p;
    struct str secret = api_member(t, "secret");
    assert_true(str_starts(secret, STR("whsec_")));
    assert_true(str_eq(stored_secret(t, id), secret));
    assert_str(api_member(t, "types"), "[\"order.paid\"]");

    assert_int_equal(get(t, "/v1/webhooks?caller=shop"), 200);
    assert_non_null(strstr(t->answer.body, id));
    assert_null(strstr(t->answer.body, "whsec_"));
    assert_int_equal(get(t, "/v1/webhooks"), 200); /* root's own: none */
    assert_null(strstr(t->answer.body, id));

    struct str path = str_printf(t->w.arena, "/v1/webhooks/%s/rotate", id);
    assert_int_equal(post(t, path.p, NULL), 404); /* not root's */
    path = str_printf(t->w.arena, "/v1/webhooks/%s/rotate?caller=shop", id);
    assert_int_equal(post(t, path.p, NULL), 200);
    assert_false(str_eq(api_member(t, "secret"), secret));
    assert_true(str_eq(stored_secret(t, id), api_member(t, "secret")));
    path = str_printf(t->w.arena, "/v1/webhooks/%s/disable?caller=shop", id);
    assert_int_equal(post(t, path.p, NULL), 200);
    assert_int_equal(get(t, "/v1/webhooks?caller=shop"), 200);
    assert_non_null(strstr(t->answer.body, "\"state\":\"off\""));

    static const char *const bad[] = {
        "{\"url\":\"ftp://a/b\"}",
        "{\"url\":\"http://u:p@127.0.0.1/\"}",
        "{\"url\":\"x\"}",
        "{\"url\":\"http://127.0.0.1/\",\"types\":[\"order.eaten\"]}",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        check_row(post(t, "/v1/webhooks", bad[i]) == 400, bad[i]);
    assert_int_equal(post(t, "/v1/webhooks", "{\"url\":\"http://127.0.0.1/\",\"caller\":\"none\"}"),
                     404);
    assert_int_equal(post(t, "/v1/webhooks/x/disable", NULL), 404);
}

static void private_addresses_are_refused_unless_allowed(void **state)
{
    struct api_world *t = *state;
    struct err_info info = { 0 };
    struct str secret;
    int64_t id;
    static const char *const urls[] = {
        "https://127.0.0.1/h",      "https://10.0.0.1/h",         "https://[::1]/h",
        "https://169.254.169.254/", "https://192.168.1.1:8443/h", "http://8.8.8.8/h",
    };
    for (size_t i = 0; i < COUNT(urls); i++) {
        enum err e = webhook_create(&t->centre, t->caller, str_of(urls[i]), 0, false, MASTER_KEY,
                                    t->w.arena, &id, &secret, &info);
        check_row(e == ERR_DENIED || e == ERR_INVALID, urls[i]);
        assert_string_equal(info.field, "url");
    }
}

/* ---- events ---- */

static enum err emit_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct event *event = arg;
    event->subject = number_make(NUMBER_ORDER, 5, tx_new_id(tx));
    event->data = STR("{\"amount\":1}");
    return outbox_emit(tx, event, info);
}

static const char *emit(struct api_world *t, int64_t caller)
{
    struct event event = { .type = EVENT_ORDER_PAID, .caller = caller, .sequence = 2 };
    size_t done;
    world_run(&t->w, emit_rule, &event);
    assert_ok(bus_turn(t->bus, &done, NULL));
    return number_str(t->w.arena, event.no).p;
}

static void the_feed_is_the_callers_own(void **state)
{
    struct api_world *t = *state;
    const char *first = emit(t, t->caller), *other = emit(t, t->caller + 1);
    assert_int_equal(api_get(t, "/v1/events?limit=1"), 200);
    assert_non_null(strstr(t->answer.body, first));
    assert_non_null(strstr(t->answer.body, "\"source\":\"fenpay-test\""));
    assert_null(strstr(t->answer.body, other));

    struct str next =
        str_printf(t->w.arena, "/v1/events?cursor=%s", api_member(t, "next_cursor").p);
    assert_int_equal(api_get(t, next.p), 200);
    assert_str(api_member(t, "events"), "[]");
    const char *second = emit(t, t->caller);
    assert_int_equal(api_get(t, next.p), 200);
    assert_non_null(strstr(t->answer.body, second));
    assert_null(strstr(t->answer.body, first));

    struct str path = str_printf(t->w.arena, "/v1/events/%s/replay", first);
    assert_int_equal(api_post(t, path.p, NULL), 202);
    assert_str(api_member(t, "event_id"), first);
    path = str_printf(t->w.arena, "/v1/events/%s/replay", other);
    assert_int_equal(api_post(t, path.p, NULL), 404);
    assert_int_equal(api_post(t, "/v1/events/none/replay", NULL), 404);
}

/* ---- incidents ---- */

static enum err incident_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct incident incident = {
        .kind = INCIDENT_PAID_TWICE,
        .subject = number_make(NUMBER_PAYMENT, 5, tx_new_id(tx)),
        .discriminator = STR(""),
        .caller = *(int64_t *)arg,
        .detail = STR("a second success"),
    };
    if (money_of(8800, STR("CNY"), &incident.amount))
        return ERR_INTERNAL;
    return incident_open(tx, &incident, NULL, info);
}

static void incidents_are_bounded_by_the_caller(void **state)
{
    struct api_world *t = *state;
    int64_t callers[] = { t->caller, t->caller, 0 };
    for (size_t i = 0; i < COUNT(callers); i++)
        world_run(&t->w, incident_rule, &callers[i]);

    assert_int_equal(api_get(t, "/v1/incidents?state=open&limit=1"), 200);
    assert_non_null(strstr(t->answer.body, "\"kind\":\"PAID_TWICE\""));
    struct str next = str_printf(t->w.arena, "/v1/incidents?state=open&limit=1&cursor=%s",
                                 api_member(t, "next_cursor").p);
    assert_int_equal(api_get(t, next.p), 200);
    assert_non_null(strstr(t->answer.body, "\"kind\":\"PAID_TWICE\""));
    assert_int_equal(api_get(t, "/v1/incidents?state=resolved"), 200);
    assert_str(api_member(t, "incidents"), "[]");
    assert_int_equal(api_get(t, "/v1/incidents?state=half"), 400);
    assert_int_equal(get(t, "/v1/incidents"), 200);
    assert_str(api_member(t, "incidents"), "[]");
    assert_int_equal(get(t, "/v1/incidents?scope=all"), 200);
    assert_non_null(strstr(t->answer.body, "PAID_TWICE"));
}

/* A number in the answer's first incident. */
static const char *first_number(struct api_world *t)
{
    const char *at = strstr(t->answer.body, "\"incident_no\":\"");
    assert_non_null(at);
    return str_dup(t->w.arena, (struct str) { at + strlen("\"incident_no\":\""), NUMBER_TEXT }).p;
}

static const char *incident_path(struct api_world *t, const char *number, const char *act)
{
    return str_printf(t->w.arena, "/v1/incidents/%s%s", number, act).p;
}

static void an_incident_is_resolved(void **state)
{
    struct api_world *t = *state;
    const char *reader;
    api_world_caller(t, "reader", PERMISSION_READ, &reader);
    world_run(&t->w, incident_rule, &t->caller);
    assert_int_equal(api_get(t, "/v1/incidents?state=open&kind=PAID_TWICE&limit=1"), 200);
    const char *no = first_number(t), *resolve = incident_path(t, no, "/resolve");
    assert_int_equal(api_get(t, "/v1/incidents?kind=KEY_EXPIRING"), 200);
    assert_str(api_member(t, "incidents"), "[]");
    assert_int_equal(api_get(t, "/v1/incidents?kind=keys"), 400);

    assert_int_equal(api_get(t, incident_path(t, no, "")), 200);
    assert_str(api_member(t, "state"), "open");
    assert_non_null(strstr(api_member(t, "actions").p, "\"ignore\""));
    assert_int_equal(api_ask(t, reader, "GET", incident_path(t, no, ""), "", NULL), 404);
    assert_int_equal(api_get(t, "/v1/incidents/none"), 404);

    const char *ignore = "{\"action\":\"ignore\",\"reason\":\"known\",\"operator\":\"amy\"}";
    assert_int_equal(api_ask(t, reader, "POST", resolve, "", ignore), 403);
    assert_int_equal(api_post(t, resolve, "{\"action\":\"ignore\"}"), 400);
    assert_str(api_member(t, "field"), "reason");
    assert_int_equal(api_post(t, resolve, "{\"action\":\"forget\",\"reason\":\"x\"}"), 400);
    assert_str(api_member(t, "field"), "action");
    assert_int_equal(api_post(t, resolve, "{\"action\":\"accept\",\"reason\":\"x\"}"), 409);
    assert_str(api_member(t, "code"), "ACTION_UNFIT");
    assert_int_equal(
        api_post(t, resolve, "{\"action\":\"ignore\",\"reason\":\"x\",\"caller\":\"shop\"}"), 403);
    assert_int_equal(api_post(t, incident_path(t, no, "/withdraw"), NULL), 409);

    assert_int_equal(api_post(t, resolve, ignore), 200);
    assert_str(api_member(t, "state"), "resolved");
    assert_str(api_member(t, "resolution"), "ignore");
    assert_str(api_member(t, "who"), "amy@shop");
    assert_str(api_member(t, "reason"), "known");
    assert_str(api_member(t, "actions"), "[]");
    assert_int_equal(api_post(t, resolve, ignore), 200);
    assert_int_equal(api_post(t, resolve, "{\"action\":\"ignore\",\"reason\":\"x\"}"), 409);
    assert_str(api_member(t, "code"), "INCIDENT_STATE");
}

static void two_persons_resolve(void **state)
{
    struct api_world *t = *state;
    int64_t most = t->centre.settings.second_person_fen;
    world_run(&t->w, incident_rule, &t->caller);
    assert_int_equal(api_get(t, "/v1/incidents?state=open&limit=1"), 200);
    const char *no = first_number(t), *resolve = incident_path(t, no, "/resolve");
    t->centre.settings.second_person_fen = 1;
    assert_int_equal(
        api_post(t, resolve, "{\"action\":\"ignore\",\"reason\":\"a\",\"operator\":\"amy\"}"), 202);
    assert_non_null(strstr(api_member(t, "proposal").p, "\"who\":\"amy@shop\""));
    assert_str(api_member(t, "state"), "open");
    assert_int_equal(api_post(t, incident_path(t, no, "/withdraw"), "{\"operator\":\"amy\"}"), 200);
    assert_null(api_member(t, "proposal").p);
    assert_int_equal(api_post(t, resolve, "{\"action\":\"ignore\",\"reason\":\"c\"}"), 202);
    assert_int_equal(
        api_post(t, resolve, "{\"action\":\"ignore\",\"reason\":\"b\",\"operator\":\"bob\"}"), 200);
    assert_str(api_member(t, "who"), "bob@shop");
    t->centre.settings.second_person_fen = most;
}

/* ---- operations ---- */

static void operations_say_how_it_is(void **state)
{
    (void)state;
    struct api_world *t = calloc(1, sizeof *t);
    api_world_open(t, 0, ops_routes);
    assert_int_equal(api_ask(t, NULL, "GET", "/healthz", "", NULL), 200);
    assert_int_equal(api_ask(t, NULL, "GET", "/readyz", "", NULL), 200);
    assert_str(api_member(t, "ready"), "true");
    assert_int_equal(api_ask(t, NULL, "GET", "/metrics", "", NULL), 200);
    assert_non_null(strstr(t->answer.raw, "fenpay_outbox_backlog 0"));
    assert_non_null(strstr(t->answer.raw, "fenpay_long_polls 0"));
    assert_non_null(strstr(t->answer.raw, "fenpay_http_requests_total{"));
    assert_non_null(strstr(t->answer.raw, "fenpay_http_request_seconds_count{"));
    assert_null(strstr(t->answer.raw, "=\"\"")); /* a label without a value */

    api_release_waiters(t->api);
    assert_int_equal(api_ask(t, NULL, "GET", "/readyz", "", NULL), 503);
    assert_str(api_member(t, "reasons"), "[\"stopping\"]");
    api_world_close(t);
    free(t);
}

int main(void)
{
#define T(test) cmocka_unit_test(test)
    const struct CMUnitTest tests[] = {
        T(a_caller_is_made_used_and_ended),
        T(a_webhook_is_made_rotated_and_switched),
        T(private_addresses_are_refused_unless_allowed),
        T(the_feed_is_the_callers_own),
        T(incidents_are_bounded_by_the_caller),
        T(an_incident_is_resolved),
        T(two_persons_resolve),
        T(operations_say_how_it_is),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_world, close_world);
}
