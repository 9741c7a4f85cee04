/* Channels, accounts, addresses, routing, swaps. */
#include "channel_testing.h"

#include <pthread.h>

static struct world w;

static int setup(void **state)
{
    (void)state;
    world_open(&w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static void tables(void **state)
{
    (void)state;
    const struct channel_info *wechat = channel_by_name(STR("wechat"));
    assert_ptr_equal(wechat, &wechat_info);
    assert_ptr_equal(channel_by_id(CHANNEL_WECHAT), wechat);
    assert_null(channel_by_id(CHANNEL_APPLE));
    assert_null(channel_by_name(STR("wecha")));
    assert_true(channel_method(wechat, METHOD_JSAPI)->needs_payer);
    assert_true(channel_method(wechat, METHOD_H5)->needs_client_ip);
    assert_int_equal(channel_method_by_name(wechat, STR("app"))->method, METHOD_APP);
    assert_null(channel_method_by_name(wechat, STR("APP")));
    for (int i = 0; i <= NOTICE_REASON_DECRYPT; i++) {
        for (int k = 0; k < i; k++)
            assert_string_not_equal(notice_reason_name((enum notice_reason)i),
                                    notice_reason_name((enum notice_reason)k));
    }
    /* What the capabilities promise is there; what is not promised is not. */
    const struct channel_driver *d = wechat->driver;
    assert_true(d->contract && d->close && d->refund_build && d->refund && d->query_refund &&
                d->refresh_keys);
    assert_false(wechat->capabilities & CHANNEL_HAS_BILLS);
    assert_null(d->bill_download);
}

static enum err open_with(const char *notify, const char *base, const char *api,
                          enum environment environment, struct account **ret, struct err_info *info)
{
    struct account_config config = world_config(&w);
    config.notify_url = str_of(notify);
    config.api_url = str_of(api);
    config.environment = (int)environment;
    return account_open(&config, str_of(base), &w.env.env, ret, info);
}

static void notify_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *notify, *base;
        enum environment environment;
        const char *result; /* NULL: refused */
    } cases[] = {
        { "https://pay.example.com/notify/a", NULL, ENVIRONMENT_PRODUCTION,
          "https://pay.example.com/notify/a" },
        { NULL, "https://pay.example.com/notify", ENVIRONMENT_PRODUCTION,
          "https://pay.example.com/notify/wx-main" },
        { NULL, "https://pay.example.com/notify/", ENVIRONMENT_PRODUCTION,
          "https://pay.example.com/notify/wx-main" },
        { "https://pay.example.com:8443/n", NULL, ENVIRONMENT_TEST,
          "https://pay.example.com:8443/n" },
        { "http://localhost:8081/notify/a", NULL, ENVIRONMENT_DEV,
          "http://localhost:8081/notify/a" },
        { "http://127.0.0.1/notify/a", NULL, ENVIRONMENT_DEV, "http://127.0.0.1/notify/a" },
        { NULL, NULL, ENVIRONMENT_DEV, NULL },
        { "http://pay.example.com/notify/a", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "http://pay.example.com/notify/a", NULL, ENVIRONMENT_TEST, NULL },
        { "https://pay.example.com/notify/a?x=1", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "https://pay.example.com/notify/a?", NULL, ENVIRONMENT_DEV, NULL },
        { "https://pay.example.com/notify/a#f", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "https://pay.example.com/", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "https://pay.example.com", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "https://203.0.113.7/notify/a", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "https://[2001:db8::1]/notify/a", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "https://localhost/notify/a", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "https://pay.local/notify/a", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "https://pay/notify/a", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "https://user@pay.example.com/notify/a", NULL, ENVIRONMENT_PRODUCTION, NULL },
        { "ftp://pay.example.com/notify/a", NULL, ENVIRONMENT_DEV, NULL },
        { "pay.example.com/notify/a", NULL, ENVIRONMENT_DEV, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct account *account = NULL;
        struct err_info info = { 0 };
        enum err e =
            open_with(cases[i].notify, cases[i].base, NULL, cases[i].environment, &account, &info);
        if ((e == ERR_OK) != (cases[i].result != NULL))
            fail_msg("%s: %s", cases[i].notify ? cases[i].notify : "-", info.text);
        if (e)
            assert_string_equal(info.field, "notify_url");
        else
            assert_str(account->config.notify_url, cases[i].result);
        account_unref(account);
    }
    char long_url[300] = "https://pay.example.com/";
    memset(long_url + strlen(long_url), 'x', 256 - strlen(long_url));
    struct account *account = NULL;
    assert_int_equal(open_with(long_url, NULL, NULL, ENVIRONMENT_PRODUCTION, &account, NULL),
                     ERR_INVALID);
}

static void other_settings(void **state)
{
    (void)state;
    static const char *const names[] = { "", "Wx", "wx_1", "a23456789012345678901234567890123",
                                         "a/b" };
    struct account *account = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct account_config config = world_config(&w);
        config.name = str_of(names[i]);
        assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_INVALID);
    }
    static const struct {
        const char *api;
        enum environment environment;
        bool ok;
    } apis[] = {
        { "http://127.0.0.1:9090", ENVIRONMENT_DEV, true },
        { "http://127.0.0.1:9090", ENVIRONMENT_TEST, true },
        { "http://127.0.0.1:9090", ENVIRONMENT_PRODUCTION, false },
        { "https://api2.mch.weixin.qq.com", ENVIRONMENT_PRODUCTION, true },
        { "https://api.mch.weixin.qq.com/", ENVIRONMENT_PRODUCTION, false },
        { "https://api.mch.weixin.qq.com/x", ENVIRONMENT_PRODUCTION, false },
        { "https://api.mch.weixin.qq.com?x", ENVIRONMENT_PRODUCTION, false },
    };
    for (size_t i = 0; i < sizeof apis / sizeof apis[0]; i++) {
        account = NULL;
        enum err e = open_with("https://pay.example.com/notify/a", NULL, apis[i].api,
                               apis[i].environment, &account, NULL);
        if ((e == ERR_OK) != apis[i].ok)
            fail_msg("%s", apis[i].api);
        account_unref(account);
    }
    struct account_config config = world_config(&w);
    config.channel = 2; /* apple */
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_INVALID);
    struct str methods[] = { STR("native"), STR("jsap") };
    config = world_config(&w);
    config.methods = (struct cfg_str_list) { methods, 2 };
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_INVALID);
    config.methods.count = 1;
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_OK);
    assert_int_equal(account->methods, 1u << METHOD_NATIVE);
    methods[0] = STR("gone"); /* the snapshot has its own texts */
    assert_str(account->config.methods.items[0], "native");
    account_unref(account);
}

static struct account *make(const char *name, enum environment environment, const char *method)
{
    struct account_config config = world_config(&w);
    struct str methods[] = { str_of(method) };
    struct account *account = NULL;
    config.name = str_of(name);
    config.environment = (int)environment;
    config.methods = (struct cfg_str_list) { methods, method ? 1 : 0 };
    config.amount_max_fen = 1000;
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_OK);
    return account;
}

static void route(struct registry *r, enum pay_method method, enum environment environment,
                  int64_t fen, const char *not_these, int64_t now_ms, const char *expected)
{
    struct money amount;
    assert_int_equal(money_of(fen, STR("CNY"), &amount), ERR_OK);
    struct account *account =
        registry_route(r, 0, method, environment, amount, str_of(not_these), now_ms);
    assert_str(account ? account->config.name : STR_NONE, expected ? expected : "");
    account_unref(account);
}

static void routing(void **state)
{
    (void)state;
    struct registry *r = registry_new();
    route(r, METHOD_NATIVE, ENVIRONMENT_PRODUCTION, 1, "", NOW_MS, NULL);
    registry_put(r, make("one", ENVIRONMENT_PRODUCTION, "jsapi"));
    registry_put(r, make("two", ENVIRONMENT_PRODUCTION, NULL));
    registry_put(r, make("three", ENVIRONMENT_PRODUCTION, NULL));
    registry_put(r, make("dev", ENVIRONMENT_DEV, NULL));
    route(r, METHOD_JSAPI, ENVIRONMENT_PRODUCTION, 1, "", NOW_MS, "one");
    route(r, METHOD_NATIVE, ENVIRONMENT_PRODUCTION, 1000, NULL, NOW_MS, "two");
    route(r, METHOD_NATIVE, ENVIRONMENT_PRODUCTION, 1001, "", NOW_MS, NULL);
    route(r, METHOD_NATIVE, ENVIRONMENT_DEV, 1, "", NOW_MS, "dev");
    route(r, METHOD_NATIVE, ENVIRONMENT_TEST, 1, "", NOW_MS, NULL);
    route(r, METHOD_NATIVE, ENVIRONMENT_PRODUCTION, 1, "two", NOW_MS, "three");
    route(r, METHOD_JSAPI, ENVIRONMENT_PRODUCTION, 1, "one, two", NOW_MS, "three");
    route(r, METHOD_JSAPI, ENVIRONMENT_PRODUCTION, 1, "one,two,three", NOW_MS, NULL);
    struct money dollars, yuan;
    assert_int_equal(money_of(1, STR("USD"), &dollars), ERR_OK);
    assert_int_equal(money_of(1, STR("CNY"), &yuan), ERR_OK);
    assert_null(
        registry_route(r, 0, METHOD_JSAPI, ENVIRONMENT_PRODUCTION, dollars, STR_NONE, NOW_MS));
    assert_null(registry_route(r, CHANNEL_ALIPAY, METHOD_JSAPI, ENVIRONMENT_PRODUCTION, yuan,
                               STR_NONE, NOW_MS));

    registry_suspend(r, STR("two"), NOW_MS + 1000);
    assert_true(registry_suspended(r, STR("two"), NOW_MS + 999));
    assert_false(registry_suspended(r, STR("two"), NOW_MS + 1000));
    assert_false(registry_suspended(r, STR("nobody"), NOW_MS));
    route(r, METHOD_NATIVE, ENVIRONMENT_PRODUCTION, 1, "", NOW_MS, "three");
    registry_put(r, make("two", ENVIRONMENT_PRODUCTION,
                         NULL)); /* a swap keeps the suspension and the place */
    route(r, METHOD_NATIVE, ENVIRONMENT_PRODUCTION, 1, "", NOW_MS, "three");
    route(r, METHOD_NATIVE, ENVIRONMENT_PRODUCTION, 1, "", NOW_MS + 1000, "two");
    struct account *retired = make("two", ENVIRONMENT_PRODUCTION, NULL);
    retired->config.retired = true;
    registry_put(r, retired);
    route(r, METHOD_NATIVE, ENVIRONMENT_PRODUCTION, 1, "", NOW_MS + 1000, "three");
    struct account *two = registry_at(r, 1);
    assert_str(two->config.name, "two");
    assert_int_equal(two->generation, 3);
    account_unref(two);
    assert_null(registry_at(r, 4));
    registry_free(r);
}

/* What was begun before a reload does not undo it. */
static void a_stale_swap_is_refused(void **state)
{
    (void)state;
    struct registry *r = registry_new();
    registry_put(r, make("one", ENVIRONMENT_PRODUCTION, NULL));
    struct account *before = registry_ref(r, STR("one")), *fresh, *now;
    struct account *reloaded = make("one", ENVIRONMENT_PRODUCTION, "jsapi");
    registry_put(r, reloaded);
    fresh = make("one", ENVIRONMENT_PRODUCTION, NULL);
    assert_false(registry_swap(r, before, fresh));
    now = registry_ref(r, STR("one"));
    assert_ptr_equal(now, reloaded);
    assert_true(registry_swap(r, now, fresh));
    account_unref(now);
    account_unref(before);
    now = registry_ref(r, STR("one"));
    assert_ptr_equal(now, fresh);
    account_unref(now);
    registry_free(r);
}

static void *reader(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        struct account *a = registry_ref(arg, STR("one"));
        if (!a || !str_eq(a->config.name, STR("one")) || wechat_keys_of(a)->count != 1)
            return arg;
        account_unref(a);
    }
    return NULL;
}

static void swaps_under_readers(void **state)
{
    (void)state;
    struct registry *r = registry_new();
    registry_put(r, make("one", ENVIRONMENT_PRODUCTION, NULL));
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader, r), 0);
    for (int i = 0; i < 20; i++) {
        struct account *fresh = make("one", ENVIRONMENT_PRODUCTION, NULL);
        struct account *now = registry_ref(r, STR("one"));
        if (i % 2)
            registry_put(r, fresh);
        else {
            fresh->generation = now->generation + 1;
            assert_true(registry_swap(r, now, fresh));
        }
        account_unref(now);
    }
    for (size_t i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    struct account *a = registry_ref(r, STR("one"));
    assert_int_equal(a->generation, 21);
    assert_null(registry_ref(r, STR("two")));
    registry_free(r);
    assert_str(a->config.name, "one"); /* a reference outlives the registry */
    account_unref(a);
}

static void settings_file(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct cfg_source src = {
        .name = STR("fenpay.yaml"),
        .text = STR("name: wx-main\n"
                    "environment: dev\n"
                    "methods: [native, h5]\n"
                    "wechat:\n"
                    "  mchid: '1900000109'\n"
                    "  appid: wxd678efh567hg6787\n"
                    "  merchant_key: key\n"
                    "  apiv3_key: '0123456789abcdefABCDEF9876543210'\n"
                    "  platform_certs: [one, two]\n"),
        .base_dir = STR("."),
    };
    struct account_config config;
    struct err_info info = { 0 };
    if (cfg_read(a, &src, account_config_table, &config, sizeof config, &info))
        fail_msg("%s", info.text);
    assert_str(config.name, "wx-main");
    assert_int_equal(config.channel, 0);
    assert_int_equal(config.environment, ENVIRONMENT_DEV);
    assert_int_equal(config.amount_max_fen, 99999999);
    assert_int_equal(config.connect_ms, 5000);
    assert_int_equal(config.total_ms, 10000);
    assert_str(config.api_url, "https://api.mch.weixin.qq.com");
    assert_str(config.wechat.mchid, "1900000109");
    assert_int_equal(config.wechat.platform_certs.count, 2);
    assert_str(config.methods.items[1], "h5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(notify_addresses),
        cmocka_unit_test(other_settings),
        cmocka_unit_test(routing),
        cmocka_unit_test(a_stale_swap_is_refused),
        cmocka_unit_test(swaps_under_readers),
        cmocka_unit_test(settings_file),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
