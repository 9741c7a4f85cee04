/* Keys: what is refused at load, how they are found, and how certificates are fetched, rotated and
 * bootstrapped. */
#include "channel_testing.h"

#include "crypto/aead.h"
#include "crypto/x509.h"

#define DAY_MS 86400000LL

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

static struct str make_cert(struct arena *a, struct rsa_key *key, const char *serial,
                            int64_t from_ms, int64_t to_ms)
{
    struct str pem;
    assert_int_equal(
        certificate_make(key, STR("Tenpay.com"), str_of(serial), from_ms, to_ms, a, &pem, NULL),
        ERR_OK);
    return pem;
}

static void refuse(const struct account_config *config, const char *field)
{
    struct account *account = NULL;
    struct err_info info = { 0 };
    if (!account_open(config, STR_NONE, &w.env.env, &account, &info))
        fail_msg("accepted a wrong %s", field);
    assert_null(account);
    assert_string_equal(info.field, field);
    assert_true(info.text[0] != 0);
}

#define REFUSE(member, value, field)                                                               \
    do {                                                                                           \
        struct account_config config_ = world_config(&w);                                          \
        config_.wechat.member = (value);                                                           \
        refuse(&config_, field);                                                                   \
    } while (0)

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    REFUSE(mchid, STR_NONE, "mchid");
    REFUSE(mchid, STR("19000001O9"), "mchid");
    REFUSE(appid, STR_NONE, "appid");
    REFUSE(appid, STR("wx\"\r\nX: y"), "appid");
    REFUSE(merchant_key, STR("-----BEGIN PRIVATE KEY-----"), "merchant_key");
    REFUSE(merchant_key, rsa_private_pem(a, w.platform), "merchant_cert");
    REFUSE(merchant_cert, STR("nothing"), "merchant_cert");
    REFUSE(merchant_cert, w.platform_cert, "merchant_cert");
    REFUSE(merchant_cert, STR_NONE, "merchant_serial");
    REFUSE(merchant_serial, STR("0C4AEF34B894"), "merchant_serial");
    REFUSE(merchant_cert, make_cert(a, w.merchant, "0C", NOW_MS - 2 * DAY_MS, NOW_MS - DAY_MS),
           "merchant_cert");
    REFUSE(apiv3_key, STR_NONE, "apiv3_key");
    REFUSE(apiv3_key, STR(APIV3 "x"), "apiv3_key");
    REFUSE(apiv3_key, STR("0123456789abcdefABCDEF987654321\n"), "apiv3_key");
    REFUSE(apiv3_key_previous, STR("short"), "apiv3_key_previous");
    REFUSE(public_key_id, STR("PUB_KEY_ID_01"), "public_key");
    REFUSE(public_key, rsa_public_pem(a, w.platform), "public_key_id");
    REFUSE(platform_certs, ((struct cfg_str_list) { &w.merchant_cert, 1 }), "platform_certs");
    REFUSE(platform_certs, ((struct cfg_str_list) { NULL, 0 }), "public_key");
    struct str old = make_cert(a, w.platform, "0A", NOW_MS - 2 * DAY_MS, NOW_MS - DAY_MS);
    REFUSE(platform_certs, ((struct cfg_str_list) { &old, 1 }), "public_key");

    struct account_config config = world_config(&w);
    config.wechat.public_key_id = STR("PUB_KEY_ID_01");
    config.wechat.public_key = rsa_public_pem(a, w.merchant);
    refuse(&config, "public_key");
}

static void serial_alone_will_do(void **state)
{
    (void)state;
    struct account_config config = world_config(&w);
    struct account *account;
    config.wechat.merchant_cert = STR_NONE;
    config.wechat.merchant_serial = STR("0c4aef34b893");
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_OK);
    assert_str(wechat_keys_of(account)->merchant_serial, "0c4aef34b893");
    account_unref(account);
}

static void lookup_is_textual(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str certs[] = { make_cert(a, w.platform, "0C4AEF", NOW_MS - DAY_MS, NOW_MS + DAY_MS),
                           make_cert(a, w.platform, "0C4AEF", NOW_MS - DAY_MS, NOW_MS + DAY_MS) };
    struct account_config config = world_config(&w);
    struct account *account;
    config.wechat.platform_certs = (struct cfg_str_list) { certs, 2 };
    config.wechat.public_key_id = STR("PUB_KEY_ID_0119aB");
    config.wechat.public_key = rsa_public_pem(a, w.platform);
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_OK);
    const struct wechat_keys *keys = wechat_keys_of(account);
    assert_int_equal(keys->count, 2); /* the same certificate once */
    static const struct {
        const char *serial;
        bool found;
    } cases[] = {
        { "0C4AEF", true },
        { "0c4aef", true },
        { "C4AEF", false },
        { "00C4AEF", false },
        { "PUB_KEY_ID_0119aB", true },
        { "PUB_KEY_ID_0119ab", false },
        { "PUB_KEY_ID_01", false },
        { "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(wechat_key_find(keys->table, keys->count, str_of(cases[i].serial)) != NULL,
                         cases[i].found);

    struct key_note notes[8];
    assert_int_equal(wechat_keys_notes(account, a, notes, 8), 3);
    assert_str(notes[0].what, "merchant certificate 0C4AEF34B893");
    assert_int_equal(notes[0].not_after_ms, NOW_MS + 365 * DAY_MS);
    assert_str(notes[1].what, "WeChat Pay public key PUB_KEY_ID_0119aB");
    assert_int_equal(notes[1].not_after_ms, 0);
    assert_int_equal(wechat_keys_notes(account, a, notes, 2), 2);
    account_unref(account);
}

static void preferred_key(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str certs[] = { make_cert(a, w.platform, "01", NOW_MS - 9 * DAY_MS, NOW_MS - 8 * DAY_MS),
                           make_cert(a, w.platform, "02", NOW_MS - 7 * DAY_MS, NOW_MS + DAY_MS),
                           make_cert(a, w.platform, "03", NOW_MS - 2 * DAY_MS, NOW_MS + 9 * DAY_MS),
                           make_cert(a, w.platform, "04", NOW_MS + DAY_MS, NOW_MS + 99 * DAY_MS) };
    struct account_config config = world_config(&w);
    struct account *account;
    config.wechat.platform_certs = (struct cfg_str_list) { certs, 4 };
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_OK);
    assert_str(wechat_key_preferred(account->keys, NOW_MS)->id, "03");
    assert_str(wechat_key_preferred(account->keys, NOW_MS + 2 * DAY_MS)->id, "04");
    assert_null(wechat_key_preferred(account->keys, NOW_MS + 100 * DAY_MS));
    account_unref(account);
}

/* ---- refreshing ---- */

/* The channel's answer with these certificates, encrypted under `key`. */
static struct str answer_of(struct arena *a, const struct str certs[], size_t n, const char *key)
{
    struct buf out;
    buf_init_arena(&out, a, 65536);
    buf_printf(&out, "{\"data\":[");
    for (size_t i = 0; i < n; i++) {
        struct str cipher;
        assert_int_equal(aead_encrypt(str_of(key), STR("nonce1234567"), STR("certificate"),
                                      certs[i], a, &cipher),
                         ERR_OK);
        struct str text = str_base64(a, cipher);
        buf_printf(
            &out,
            "%s{\"serial_no\":\"whatever\",\"effective_time "
            "\":\"x\",\"encrypt_certificate\":{\"algorithm\":"
            "\"AEAD_AES_256_GCM\",\"nonce\":\"nonce1234567\",\"associated_data\":\"certificate\","
            "\"ciphertext\":\"" STR_FMT "\"}}",
            i ? "," : "", STR_ARG(text));
    }
    buf_printf(&out, "]}");
    return buf_str(&out);
}

static struct account *open_downloading(struct cfg_str_list certs)
{
    struct account_config config = world_config(&w);
    struct account *account;
    config.wechat.download_certs = true;
    config.wechat.platform_certs = certs;
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_OK);
    return account;
}

static enum err refresh(struct arena *a, struct account *account, int status, struct str body,
                        enum sign_mode mode, struct account **ret, struct err_info *info)
{
    struct scripted s;
    struct channel_ctx ctx = { .env = &w.env.env, .transport = &s.transport, .arena = a };
    struct learnt_keys learnt = { .count = 0 };
    size_t refused;
    scripted_answer(&s, &w, status, str_cstr(a, body), mode);
    enum err e = account->info->driver->refresh_keys(account, &ctx, &learnt, info);
    return e ? e : account->info->driver->keys_add(account, &learnt, ret, &refused, info);
}

static void rotation_keeps_the_old_and_adds_the_new(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct account *account = open_downloading((struct cfg_str_list) { &w.platform_cert, 1 }),
                   *renewed, *again;
    struct str certs[] = { w.platform_cert,
                           make_cert(a, w.platform, "0BB0", NOW_MS, NOW_MS + 400 * DAY_MS) };
    struct str body = answer_of(a, certs, 2, APIV3);
    assert_int_equal(refresh(a, account, 200, body, SIGN_GOOD, &renewed, NULL), ERR_OK);
    assert_non_null(renewed);
    const struct wechat_keys *keys = wechat_keys_of(renewed);
    assert_int_equal(keys->count, 2);
    assert_non_null(wechat_key_find(keys->table, 2, STR(SERIAL)));
    assert_non_null(wechat_key_find(keys->table, 2, STR("0BB0")));
    assert_true(renewed->generation > account->generation);
    assert_true(str_eq(renewed->config.notify_url, account->config.notify_url));
    account_unref(account); /* the new one stands alone */
    assert_int_equal(refresh(a, renewed, 200, body, SIGN_GOOD, &again, NULL), ERR_OK);
    assert_null(again);
    account_unref(renewed);
}

static void first_start_believes_a_set_that_verifies_itself(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct account *account = open_downloading((struct cfg_str_list) { NULL, 0 }), *renewed = NULL;
    struct str stranger = make_cert(a, w.merchant, SERIAL, NOW_MS - DAY_MS, NOW_MS + DAY_MS);

    /* Not under our APIv3 key; not signed by what it brings; tampered with. */
    assert_int_equal(refresh(a, account, 200,
                             answer_of(a, &w.platform_cert, 1, "another-key-of-32-characters-000"),
                             SIGN_GOOD, &renewed, NULL),
                     ERR_DENIED);
    assert_int_equal(
        refresh(a, account, 200, answer_of(a, &stranger, 1, APIV3), SIGN_GOOD, &renewed, NULL),
        ERR_DENIED);
    struct str body = answer_of(a, &w.platform_cert, 1, APIV3);
    assert_int_equal(refresh(a, account, 200, body, SIGN_WRONG, &renewed, NULL), ERR_DENIED);
    assert_int_equal(refresh(a, account, 200, body, SIGN_NONE, &renewed, NULL), ERR_DENIED);
    assert_int_equal(refresh(a, account, 200, body, SIGN_STALE, &renewed, NULL), ERR_DENIED);
    assert_null(renewed);

    assert_int_equal(refresh(a, account, 200, body, SIGN_GOOD, &renewed, NULL), ERR_OK);
    assert_int_equal(wechat_keys_of(renewed)->count, 1);
    account_unref(account);
    account_unref(renewed);
}

/* A valid key in hand: a set signed by a stranger is refused, whatever it decrypts under. */
static void no_bootstrap_while_a_key_is_valid(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct account *account, *renewed = NULL;
    struct account_config config = world_config(&w);
    config.wechat.download_certs = true;
    config.wechat.public_key_id = STR("PUB_KEY_ID_01");
    config.wechat.public_key = rsa_public_pem(a, w.platform);
    config.wechat.platform_certs = (struct cfg_str_list) { NULL, 0 };
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, NULL), ERR_OK);
    struct str body = answer_of(a, &w.platform_cert, 1, APIV3);
    assert_int_equal(refresh(a, account, 200, body, SIGN_GOOD, &renewed, NULL), ERR_DENIED);
    assert_null(renewed);
    account_unref(account);
}

/* After a long sleep all held ones are expired: the first start once more. */
static void expired_sets_start_again(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str old = make_cert(a, w.merchant, "0AA0", NOW_MS - 9 * DAY_MS, NOW_MS - DAY_MS);
    struct account *account = open_downloading((struct cfg_str_list) { &old, 0 }), *renewed = NULL;
    struct wechat_key expired;
    assert_int_equal(wechat_key_of_certificate(old, a, &expired, NULL), ERR_OK);
    struct account *holding;
    assert_int_equal(account_renew(account, wechat_keys_with(account->keys, &expired, 1), &holding),
                     ERR_OK);
    assert_int_equal(wechat_keys_of(holding)->count, 1);
    rsa_unref(expired.key);

    struct str certs[] = { old, w.platform_cert };
    assert_int_equal(
        refresh(a, holding, 200, answer_of(a, certs, 2, APIV3), SIGN_GOOD, &renewed, NULL), ERR_OK);
    assert_non_null(wechat_key_find(wechat_keys_of(renewed)->table, wechat_keys_of(renewed)->count,
                                    STR(SERIAL)));
    account_unref(account);
    account_unref(holding);
    account_unref(renewed);
}

static void one_bad_entry_spoils_nothing(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct account *account = open_downloading((struct cfg_str_list) { &w.platform_cert, 1 }),
                   *renewed = NULL;
    struct str certs[] = { STR("no certificate"),
                           make_cert(a, w.platform, "0BB0", NOW_MS, NOW_MS + DAY_MS) };
    assert_int_equal(
        refresh(a, account, 200, answer_of(a, certs, 2, APIV3), SIGN_GOOD, &renewed, NULL), ERR_OK);
    assert_int_equal(wechat_keys_of(renewed)->count, 2);
    account_unref(renewed);
    renewed = NULL;
    assert_int_equal(
        refresh(a, account, 200, answer_of(a, certs, 1, APIV3), SIGN_GOOD, &renewed, NULL),
        ERR_INVALID);
    assert_int_equal(refresh(a, account, 200, STR("{\"data\":[]}"), SIGN_GOOD, &renewed, NULL),
                     ERR_INVALID);
    assert_int_equal(refresh(a, account, 200, STR("<html>"), SIGN_GOOD, &renewed, NULL),
                     ERR_INVALID);
    assert_null(renewed);
    account_unref(account);
}

static void other_answers(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct account *account = open_downloading((struct cfg_str_list) { &w.platform_cert, 1 }),
                   *renewed = NULL;
    struct err_info info = { 0 };
    assert_int_equal(
        refresh(a, account, 404,
                STR("{\"code\":\"RESOURCE_NOT_EXISTS\",\"message\":\"无可用的平台证书\"}"),
                SIGN_NONE, &renewed, &info),
        ERR_NOT_FOUND);
    assert_string_equal(info.field, "download_certs");
    assert_int_equal(
        refresh(a, account, 500, STR("{\"code\":\"SYSTEM_ERROR\"}"), SIGN_NONE, &renewed, NULL),
        ERR_BUSY);
    assert_int_equal(refresh(a, account, 429, STR("{}"), SIGN_NONE, &renewed, NULL), ERR_BUSY);
    assert_int_equal(
        refresh(a, account, 401, STR("{\"code\":\"SIGN_ERROR\"}"), SIGN_NONE, &renewed, NULL),
        ERR_DENIED);
    assert_null(renewed);
    account_unref(account);
    /* The mode is explicit: without it nothing is asked. */
    assert_int_equal(refresh(a, w.account, 500, STR(""), SIGN_NONE, &renewed, NULL), ERR_OK);
    assert_null(renewed);
}

/* ---- stored ones ---- */

static struct learnt_keys learn(struct arena *a, struct account *account, const struct str certs[],
                                size_t n)
{
    struct scripted s;
    struct channel_ctx ctx = { .env = &w.env.env, .transport = &s.transport, .arena = a };
    struct learnt_keys learnt = { .count = 0 };
    scripted_answer(&s, &w, 200, str_cstr(a, answer_of(a, certs, n, APIV3)), SIGN_GOOD);
    assert_int_equal(account->info->driver->refresh_keys(account, &ctx, &learnt, NULL), ERR_OK);
    assert_int_equal(learnt.count, n);
    return learnt;
}

/* How many keys the account has after these were added; `refused` of them were left out. */
static size_t added(struct account *account, const struct learnt_keys *learnt, size_t refused)
{
    struct account *ret = NULL;
    size_t got = 99, count;
    assert_int_equal(account->info->driver->keys_add(account, learnt, &ret, &got, NULL), ERR_OK);
    assert_int_equal(got, refused);
    count = wechat_keys_of(ret ? ret : account)->count;
    account_unref(ret);
    return count;
}

static void stored_ones_are_believed_for_their_own_contract_only(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct account *account = open_downloading((struct cfg_str_list) { NULL, 0 });
    struct str old = make_cert(a, w.platform, "0BB0", NOW_MS - 9 * DAY_MS, NOW_MS - DAY_MS);
    struct str certs[] = { w.platform_cert, old };
    struct learnt_keys learnt = learn(a, account, certs, 2), broken;
    assert_str(learnt.items[1].serial, "0BB0");
    assert_int_equal(learnt.items[1].not_after_ms, NOW_MS - DAY_MS);
    assert_int_equal(added(account, &learnt, 0), 2); /* the expired one verifies what is stored */

    broken = learnt;
    broken.items[0].serial = STR("0CC0"); /* not what the certificate says */
    assert_int_equal(added(account, &broken, 1), 1);
    broken = learnt;
    broken.items[0].pem = STR("no certificate");
    assert_int_equal(added(account, &broken, 1), 1);
    broken = learnt;
    broken.items[0].pem = w.merchant_cert; /* anybody who has our key could sign for them */
    broken.items[0].serial = STR("0C4AEF34B893");
    assert_int_equal(added(account, &broken, 1), 1);
    broken.count = 0;
    assert_int_equal(added(account, &broken, 0), 0);
    account_unref(account);

    /* The same name stands for another merchant, another address, another environment now. */
    struct account_config config = world_config(&w);
    config.wechat.download_certs = true;
    config.wechat.platform_certs = (struct cfg_str_list) { NULL, 0 };
    struct account_config others[] = { config, config, config, config };
    others[0].wechat.mchid = STR("1900000110");
    others[1].api_url = STR("https://other.test");
    others[2].environment = ENVIRONMENT_DEV;
    others[3].amount_max_fen = 5; /* of no weight */
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(account_open(&others[i], STR_NONE, &w.env.env, &account, NULL), ERR_OK);
        assert_int_equal(added(account, &learnt, i < 3 ? 2 : 0), i < 3 ? 0 : 2);
        account_unref(account);
    }
    assert_int_equal(added(w.account, &learnt, 0), wechat_keys_of(w.account)->count);
}

static void replaced_ones_end_unnoticed(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str certs[] = { make_cert(a, w.platform, "01", NOW_MS - 9 * DAY_MS, NOW_MS - DAY_MS),
                           make_cert(a, w.platform, "02", NOW_MS - DAY_MS, NOW_MS + 9 * DAY_MS) };
    struct account *account = open_downloading((struct cfg_str_list) { certs, 2 });
    struct key_note notes[8];
    assert_int_equal(wechat_keys_notes(account, a, notes, 8), 3);
    assert_false(notes[0].replaced); /* the merchant's own */
    assert_true(notes[1].replaced);
    assert_false(notes[2].replaced);
    account_unref(account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(serial_alone_will_do),
        cmocka_unit_test(lookup_is_textual),
        cmocka_unit_test(preferred_key),
        cmocka_unit_test(rotation_keeps_the_old_and_adds_the_new),
        cmocka_unit_test(first_start_believes_a_set_that_verifies_itself),
        cmocka_unit_test(no_bootstrap_while_a_key_is_valid),
        cmocka_unit_test(expired_sets_start_again),
        cmocka_unit_test(one_bad_entry_spoils_nothing),
        cmocka_unit_test(other_answers),
        cmocka_unit_test(stored_ones_are_believed_for_their_own_contract_only),
        cmocka_unit_test(replaced_ones_end_unnoticed),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
