/* Events: names, CloudEvents, the Standard Webhooks signature. */
#include "check.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "bus/bus.h"

#include <unistd.h>

static void names_go_both_ways(void **state)
{
    (void)state;
    for (unsigned t = EVENT_PAYMENT_SUCCESS; t <= EVENT_RECON_FINISHED; t++) {
        enum event_type back;
        assert_ok(event_type_parse(str_of(event_type_name((enum event_type)t)), &back));
        assert_int_equal(back, t);
    }
    enum event_type untouched = EVENT_ORDER_PAID;
    assert_int_equal(event_type_parse(STR("order"), &untouched), ERR_INVALID);
    assert_int_equal(event_type_parse(STR(""), &untouched), ERR_INVALID);
    assert_int_equal(untouched, EVENT_ORDER_PAID);
}

static void a_cloud_event(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    struct event event = {
        .type = EVENT_PAYMENT_SUCCESS,
        .no = number_make(NUMBER_EVENT, 77, number_first_id(1780000000000)),
        .subject = number_make(NUMBER_PAYMENT, 77, number_first_id(1779999990000)),
        .sequence = 3,
        .data = STR("{\"amount\":8800}"),
        .time_ms = 1780000000123,
    };
    struct buf out;
    buf_init_arena(&out, a, 4096);
    event_print(&event, STR("shop \"one\""), &out);
    assert_true(buf_ok(&out));

    const struct json *j;
    struct err_info info = { .err = ERR_OK };
    assert_ok(json_parse(a, buf_str(&out), &j, &info));
    struct str s;
    assert_ok(json_get_str(j, "specversion", &s, NULL));
    assert_str(s, "1.0");
    assert_ok(json_get_str(j, "id", &s, NULL));
    assert_str(s, number_text(event.no).s);
    assert_ok(json_get_str(j, "subject", &s, NULL));
    assert_str(s, number_text(event.subject).s);
    assert_ok(json_get_str(j, "type", &s, NULL));
    assert_str(s, "payment.success");
    assert_ok(json_get_str(j, "source", &s, NULL));
    assert_str(s, "shop \"one\"");
    assert_ok(json_get_str(j, "time", &s, NULL));
    assert_str(s, "2026-05-29T04:26:40.123+08:00");
    int64_t n;
    assert_ok(json_get_int(j, "sequence", &n, NULL));
    assert_int_equal(n, 3);
    assert_ok(json_get_int(json_get(j, "data"), "amount", &n, NULL));
    assert_int_equal(n, 8800);
}

/* The example of the Standard Webhooks specification and its libraries. */
static void the_published_signature(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    struct str secret = STR("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    struct str got = webhook_signature(a, STR("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330,
                                       STR("{\"test\": 2432232314}"), &secret, 1);
    assert_str(got, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

static struct str run(struct arena *a, const char *command)
{
    FILE *f = popen(command, "r");
    assert_non_null(f);
    char line[512];
    size_t n = fread(line, 1, sizeof line, f);
    assert_int_equal(pclose(f), 0);
    return str_dup(a, (struct str) { line, n });
}

/* openssl computes the same; two keys during a rotation give two signatures. */
static void openssl_agrees(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    struct str secrets[] = { STR("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"),
                             STR("whsec_/////////////////////w==") };
    struct str got = webhook_signature(a, STR("E1"), 1780000000, STR("{\"a\":1}"), secrets, 2);

    struct str one = run(a, "printf '%s' 'E1.1780000000.{\"a\":1}' | openssl dgst -sha256 -mac HMAC"
                            " -macopt hexkey:000102030405060708090a0b0c0d0e0f1011121314151617 "
                            "-binary | base64 | tr -d '\\n'");
    struct str two =
        run(a, "printf '%s' 'E1.1780000000.{\"a\":1}' | openssl dgst -sha256 -mac HMAC"
               " -macopt hexkey:ffffffffffffffffffffffffffffffff -binary | base64 | tr -d '\\n'");
    assert_str(got, str_printf(a, "v1," STR_FMT " v1," STR_FMT, STR_ARG(one), STR_ARG(two)).p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(a_cloud_event),
        cmocka_unit_test(the_published_signature),
        cmocka_unit_test(openssl_agrees),
    };
    return RUN_TESTS(tests);
}
