/* callbacks.c -- WeChat Pay callbacks as whole HTTP requests, prepared and signed just before a
 * run. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "crypto/aead.h"
#include "crypto/rsa.h"

#define SIGNERS 2

struct signer {
    const struct bench_site *site;
    struct rsa_key *key;
    struct arena *arena;
    struct str *ret;
    size_t from, to;
    enum err err;
};

static struct str plain_text(struct arena *a, const struct bench_site *b, struct number pay_no,
                             int64_t now_ms)
{
    struct str when = clock_rfc3339(a, now_ms);
    return str_printf(a,
                      "{\"mchid\":\"" STR_FMT "\",\"appid\":\"" STR_FMT
                      "\",\"out_trade_no\":\"%s\",\"transaction_id\":\"42%026llu\","
                      "\"trade_type\":\"NATIVE\",\"trade_state\":\"SUCCESS\",\"trade_state_desc\":"
                      "\"支付成功\",\"bank_type\":\"ICBC_DEBIT\",\"attach\":\"\","
                      "\"success_time\":\"" STR_FMT
                      "\",\"payer\":{\"openid\":\"oUpF8uMuAJO_M2pxb1Q9zNjWeS6o\"},"
                      "\"amount\":{\"total\":8800,\"payer_total\":8800,\"currency\":\"CNY\","
                      "\"payer_currency\":\"CNY\"}}",
                      STR_ARG(b->site.wechat.mchid), STR_ARG(b->site.wechat.appid),
                      number_text(pay_no).s, (unsigned long long)pay_no.id, STR_ARG(when));
}

static enum err make(struct signer *s, struct number pay_no, struct arena *scratch, struct str *ret)
{
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    struct str nonce =
        str_printf(scratch, "%012llx", (unsigned long long)(pay_no.id & 0xffffffffffff));
    struct str cipher, signature;
    enum err e = aead_encrypt(s->site->site.wechat.apiv3_key, nonce, STR("transaction"),
                              plain_text(scratch, s->site, pay_no, now_ms), scratch, &cipher);
    if (e)
        return e;
    struct str body =
        str_printf(scratch,
                   "{\"id\":\"%08x-0000-5000-8000-%012llx\",\"create_time\":\"" STR_FMT
                   "\",\"resource_type\":\"encrypt-resource\","
                   "\"event_type\":\"TRANSACTION.SUCCESS\",\"summary\":\"支付成功\",\"resource\":{"
                   "\"original_type\":\"transaction\","
                   "\"algorithm\":\"AEAD_AES_256_GCM\",\"ciphertext\":\"" STR_FMT
                   "\",\"associated_data\":\"transaction\",\"nonce\":\"" STR_FMT "\"}}",
                   (unsigned)(pay_no.id >> 32), (unsigned long long)(pay_no.id & 0xffffffffffff),
                   STR_ARG(clock_rfc3339(scratch, now_ms)), STR_ARG(str_base64(scratch, cipher)),
                   STR_ARG(nonce));
    struct str message = str_printf(scratch, "%lld\n" STR_FMT "\n" STR_FMT "\n",
                                    (long long)(now_ms / 1000), STR_ARG(nonce), STR_ARG(body));
    if ((e = rsa_sign(s->key, message, scratch, &signature, NULL)))
        return e;
    *ret = str_printf(
        s->arena,
        "POST /notify/" DEV_ACCOUNT " HTTP/1.1\r\nHost: pay.example.com\r\nUser-Agent: "
        "Mozilla/4.0\r\nContent-Type: application/json\r\n"
        "Wechatpay-Serial: " STR_FMT "\r\nWechatpay-Timestamp: %lld\r\nWechatpay-Nonce: " STR_FMT
        "\r\nWechatpay-Signature: " STR_FMT "\r\n"
        "Wechatpay-Signature-Type: WECHATPAY2-SHA256-RSA2048\r\nContent-Length: "
        "%zu\r\n\r\n" STR_FMT,
        STR_ARG(s->site->site.wechat.platform_serial), (long long)(now_ms / 1000), STR_ARG(nonce),
        STR_ARG(str_base64(scratch, signature)), body.n, STR_ARG(body));
    return ERR_OK;
}

static void *sign(void *arg)
{
    struct signer *s = arg;
    ARENA_AUTO scratch = arena_new(65536);
    for (size_t i = s->from; i < s->to && !s->err; i++) {
        s->err = make(s, s->site->payments[i], scratch, &s->ret[i]);
        arena_reset(scratch);
    }
    return NULL;
}

void bench_shuffle(struct str *items, size_t n)
{
    struct rand r;
    rand_seed(&r, 20260101);
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)rand_below(&r, i);
        struct str kept = items[i - 1];
        items[i - 1] = items[j];
        items[j] = kept;
    }
}

enum err bench_callbacks(const struct bench_site *b, size_t count, struct str **ret,
                         struct err_info *info)
{
    struct rsa_key *key;
    enum err e = rsa_private_from_pem(b->site.wechat.platform_key_pem, &key, info);
    if (e)
        return e;
    struct str *requests = calloc(count, sizeof *requests);
    struct signer signers[SIGNERS];
    pthread_t threads[SIGNERS];
    if (!requests)
        abort();
    for (size_t i = 0; i < SIGNERS; i++) {
        signers[i] = (struct signer) { b,
                                       key,
                                       arena_new(1 << 20),
                                       requests,
                                       count * i / SIGNERS,
                                       count * (i + 1) / SIGNERS,
                                       ERR_OK };
        if (pthread_create(&threads[i], NULL, sign, &signers[i]))
            abort();
    }
    for (size_t i = 0; i < SIGNERS; i++) {
        pthread_join(threads[i], NULL);
        e = e ? e : signers[i].err;
    }
    rsa_unref(key);
    *ret = requests;
    return e ? err_set(info, e, "a callback could not be signed") : ERR_OK;
}
