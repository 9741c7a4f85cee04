/* fuzz_wechat_notice.c -- a callback of anything at all. The first byte says where the rest stands:
 *   h  headers, an empty line, a body: as an attacker sends it; must never verify
 *   e  an envelope, signed by the channel's key
 *   t  the plaintext of TRANSACTION.SUCCESS, r  of REFUND.SUCCESS, encrypted and signed */
#include <stdlib.h>

#include "base/arena.h"
#include "channel/registry.h"
#include "crypto/aead.h"
#include "crypto/rsa.h"

#define APIV3 "0123456789abcdefABCDEF9876543210"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct env_test env;
static struct rsa_key *platform;
static struct account *account;

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void open_account(void)
{
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *merchant;
    rsa_allow_short_keys();
    env_init_test(&env, 1700000000000, 1);
    must(!rsa_generate(512, &merchant, NULL) && !rsa_generate(512, &platform, NULL));
    struct account_config config = {
        .name = STR("fuzz"),
        .environment = ENVIRONMENT_PRODUCTION,
        .notify_url = STR("https://pay.example.com/notify/fuzz"),
        .wechat = { .mchid = STR("1900000109"),
                    .appid = STR("wxd678efh567hg6787"),
                    .merchant_key = rsa_private_pem(a, merchant),
                    .merchant_serial = STR("01"),
                    .apiv3_key = STR(APIV3),
                    .public_key_id = STR("PUB_KEY_ID_01"),
                    .public_key = rsa_public_pem(a, platform) },
    };
    must(!account_open(&config, STR_NONE, &env.env, &account, NULL));
    rsa_unref(merchant);
}

static struct http_headers signed_headers(struct arena *a, struct str body)
{
    struct str signature;
    struct str message = str_printf(a, "1700000000\nn\n" STR_FMT "\n", STR_ARG(body));
    must(!rsa_sign(platform, message, a, &signature, NULL));
    struct http_header *items = arena_array(a, 4, sizeof(items[0]));
    items[0] = (struct http_header) { STR("Wechatpay-Timestamp"), STR("1700000000") };
    items[1] = (struct http_header) { STR("Wechatpay-Nonce"), STR("n") };
    items[2] = (struct http_header) { STR("Wechatpay-Serial"), STR("PUB_KEY_ID_01") };
    items[3] = (struct http_header) { STR("Wechatpay-Signature"), str_base64(a, signature) };
    return (struct http_headers) { items, 4 };
}

static struct http_headers given_headers(struct arena *a, struct str *rest)
{
    struct http_header *items = arena_array(a, 16, sizeof(items[0]));
    size_t n = 0;
    while (rest->p && n < 16) {
        struct str line = str_cut(rest, '\n');
        struct str name = str_cut(&line, ':');
        if (!line.p)
            break;
        items[n++] = (struct http_header) { name, str_trim(line) };
    }
    return (struct http_headers) { items, n };
}

static struct str envelope(struct arena *a, const char *kind, const char *type, struct str plain)
{
    struct str cipher;
    must(!aead_encrypt(STR(APIV3), STR("nonce1234567"), STR("x"), plain, a, &cipher));
    struct str text = str_base64(a, cipher);
    return str_printf(a,
                      "{\"id\":\"EV-1\",\"event_type\":\"%s\",\"resource\":{\"original_type\":"
                      "\"%s\",\"algorithm\":\"AEAD_AES_256_GCM\",\"ciphertext\":\"" STR_FMT
                      "\",\"associated_data\":\"x\",\"nonce\":\"nonce1234567\"}}",
                      kind, type, STR_ARG(text));
}

static void check(enum notice_result result, const struct notice *n, bool forged)
{
    must(!forged || result == NOTICE_BAD || result == NOTICE_LATER);
    switch (result) {
    case NOTICE_OK:
        must(n->reason == NOTICE_REASON_NONE && n->fact_count == 1 && n->event_key.n > 0);
        must(n->facts[0].kind == FACT_NOTHING || n->subject_no.n > 0);
        break;
    case NOTICE_RAW_ONLY:
        must(n->reason != NOTICE_REASON_NONE && n->fact_count == 0 && n->subject_no.n == 0);
        must(str_starts(n->event_key, STR("raw:")));
        break;
    case NOTICE_LATER:
    case NOTICE_BAD:
        must(n->reason != NOTICE_REASON_NONE && n->fact_count == 0);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (!account)
        open_account();
    ARENA_AUTO a = arena_new(65536);
    struct str body = { (const char *)data + 1, size - 1 };
    struct http_headers headers = { 0 };
    bool forged = false;
    switch (data[0]) {
    case 'h':
        headers = given_headers(a, &body);
        forged = true;
        break;
    case 'e':
        headers = signed_headers(a, body);
        break;
    case 't':
    case 'r':
        body = data[0] == 't' ? envelope(a, "TRANSACTION.SUCCESS", "transaction", body)
                              : envelope(a, "REFUND.SUCCESS", "refund", body);
        headers = signed_headers(a, body);
        break;
    default:
        return 0;
    }
    struct notice_input in = { .body = body, .headers = &headers };
    struct notice n;
    enum notice_result result =
        account->info->driver->read_notice(account, &env.env, &in, a, &n, NULL);
    check(result, &n, forged);
    return 0;
}
