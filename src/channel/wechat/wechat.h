/* wechat.h -- what the files of the WeChat Pay v3 adapter (direct merchant, CNY) share. Nobody
 * outside this folder and its tests includes it.
 *
 * One file a concern: keys (what signs and verifies), certificates (refreshing them), sign
 * (messages, signatures), request (bodies we send), api (calls), errors (what the channel's codes
 * mean), facts (its objects in our words), notify (callbacks), params (what the client gets).
 * Signed bytes are sent bytes; nothing is parsed before it verified. */
#ifndef FENPAY_WECHAT_H
#define FENPAY_WECHAT_H

#include "channel/channel.h"
#include "crypto/rsa.h"

#define WECHAT_WINDOW_S  300
#define WECHAT_APIV3_KEY 32

/* ---- keys.c: an immutable set, one per account snapshot ---- */

/* Something the channel's signatures are verified with: a platform certificate's key or a WeChat
 * Pay public key. */
struct wechat_key {
    struct str id;    /* as it stands in Wechatpay-Serial */
    bool certificate; /* hex serial, any case; otherwise an opaque PUB_KEY_ID_… */
    struct rsa_key *key;
    int64_t not_before_ms, not_after_ms; /* 0, 0: never expires */
};

struct wechat_keys {
    struct arena *arena; /* wiped when let go */
    struct rsa_key *merchant;
    struct str merchant_serial;
    int64_t merchant_not_after_ms; /* 0: the certificate was not given */
    struct str apiv3[2];           /* current, previous */
    size_t apiv3_count;
    struct wechat_key *table;
    size_t count;
};

enum err wechat_keys_open(struct account *account, struct env *env, struct err_info *info);
void wechat_keys_close(struct account *account);
void wechat_keys_free(struct wechat_keys *keys);
size_t wechat_keys_notes(const struct account *account, struct arena *a, struct key_note ret[],
                         size_t max);
/* A new set: the old one and the `n` more (their keys referenced anew). Expired ones stay, they
 * verify what was signed in their time. */
struct wechat_keys *wechat_keys_with(const struct wechat_keys *old, const struct wechat_key more[],
                                     size_t n);
const struct wechat_key *wechat_key_find(const struct wechat_key table[], size_t n,
                                         struct str serial);
/* The one whose id goes into our Wechatpay-Serial: a public key, else the certificate valid now
 * that began last; NULL: none. */
const struct wechat_key *wechat_key_preferred(const struct wechat_keys *keys, int64_t now_ms);
/* The key set of a platform certificate's PEM text; `ret->key` is the caller's. */
enum err wechat_key_of_certificate(struct str pem, struct arena *a, struct wechat_key *ret,
                                   struct err_info *info);

static inline const struct wechat_keys *wechat_keys_of(const struct account *account)
{
    return account->keys;
}

/* ---- certificates.c ---- */

/* The certificates of a GET /v3/certificates answer that decrypt, and the PEM text of each; others
 * are skipped. ERR_DENIED: none did. */
enum err wechat_certificates_read(const struct wechat_keys *keys, const struct json *answer,
                                  struct arena *a, struct wechat_key ret[], struct str ret_pem[],
                                  size_t max, size_t *ret_n, struct err_info *info);
enum err wechat_refresh_keys(struct account *account, const struct channel_ctx *ctx,
                             struct learnt_keys *ret, struct err_info *info);
enum err wechat_keys_add(struct account *account, const struct learnt_keys *keys,
                         struct account **ret, size_t *ret_refused, struct err_info *info);

/* ---- sign.c ---- */

struct str wechat_request_message(struct arena *a, const char *method, struct str path_query,
                                  struct str timestamp, struct str nonce, struct str body);
/* The value of the Authorization header, for exactly these bytes. */
enum err wechat_authorization(const struct wechat_keys *keys, struct str mchid, struct str message,
                              struct str timestamp, struct str nonce, struct arena *a,
                              struct str *ret, struct err_info *info);
/* paySign and the APP's sign: four lines under the merchant key, Base64. */
enum err wechat_client_sign(const struct wechat_keys *keys, struct str appid, struct str timestamp,
                            struct str nonce, struct str fourth, struct arena *a, struct str *ret,
                            struct err_info *info);
struct str wechat_nonce(struct env *env, struct arena *a); /* 32 hex characters */
struct str wechat_timestamp(struct env *env, struct arena *a);

/* Is `body` under these headers the channel's? NOTICE_REASON_NONE: it verified. For callbacks and
 * answers alike. */
enum notice_reason wechat_verify(const struct wechat_key table[], size_t n,
                                 const struct http_headers *headers, struct str body,
                                 int64_t now_ms, bool any_time, struct arena *a,
                                 struct err_info *info);

/* ---- errors.c ---- */

enum wechat_op {
    WECHAT_PREPAY,
    WECHAT_QUERY,
    WECHAT_CLOSE,
    WECHAT_REFUND,
    WECHAT_QUERY_REFUND,
    WECHAT_CERTIFICATES,
    WECHAT_BILL
};
#define WECHAT_OPS 7

struct wechat_verdict {
    enum channel_outcome outcome;
    enum channel_class class;
    bool not_exist;
};
/* What an answer that is not a success means for that call. `code` is the channel's, in any
 * spelling; empty: none. */
struct wechat_verdict wechat_judge(enum wechat_op op, int status, struct str code);

/* ---- facts.c ---- */

/* A Transaction object. `*ret_state` is the channel's word. ERR_INVALID: it states a payment and
 * lacks what that needs. */
enum err wechat_transaction_fact(const struct account *account, const struct json *transaction,
                                 struct fact *ret, struct str *ret_state, struct err_info *info);
/* A Refund object, of a callback or of an answer: the status stands under different names. */
enum err wechat_refund_fact(const struct account *account, const struct json *refund, bool callback,
                            struct fact *ret, struct str *ret_state, struct err_info *info);

/* ---- request.c ---- */

enum err wechat_prepay_build(const struct account *account, const struct prepay *p, struct arena *a,
                             struct channel_request *ret, struct err_info *info);
enum err wechat_refund_build(const struct account *account, const struct refund_request *r,
                             struct arena *a, struct channel_request *ret, struct err_info *info);
/* Text as the channel takes it: code points up to U+FFFF only, no control characters, at most `max`
 * bytes of whole ones. */
struct str wechat_clean_text(struct arena *a, struct str text, size_t max);

/* ---- api.c ---- */

struct wechat_call {
    enum wechat_op op;
    const char *method;
    struct str endpoint; /* path and query as on the wire */
    struct str body;
};
/* Signs, sends, and notes request and answer (masked) in `*ret`. False: no answer came, or it is a
 * refusal, and `*ret` says so. True: `*ret_reply` is a 2xx answer whose signature nobody has looked
 * at. */
bool wechat_send(struct account *account, const struct channel_ctx *ctx,
                 const struct wechat_call *call, struct channel_answer *ret,
                 struct http_reply *ret_reply);
/* Personal values (openid, receiving account) of a JSON text replaced by "***". */
struct str wechat_masked_body(struct arena *a, struct str body);

void wechat_prepay(struct account *account, const struct channel_ctx *ctx, enum pay_method method,
                   const struct channel_request *request, struct channel_answer *ret);
void wechat_query(struct account *account, const struct channel_ctx *ctx, struct str pay_no,
                  struct channel_answer *ret);
void wechat_close(struct account *account, const struct channel_ctx *ctx, struct str pay_no,
                  struct channel_answer *ret);
void wechat_refund(struct account *account, const struct channel_ctx *ctx,
                   const struct channel_request *request, struct channel_answer *ret);
void wechat_query_refund(struct account *account, const struct channel_ctx *ctx,
                         struct str refund_no, struct channel_answer *ret);

/* ---- notify.c, params.c ---- */

enum notice_result wechat_read_notice(struct account *account, struct env *env,
                                      const struct notice_input *in, struct arena *a,
                                      struct notice *ret, struct err_info *info);
void wechat_answer_notice(const struct account *account, enum notice_answer answer,
                          struct notice_reply *ret);
enum err wechat_client_params(struct account *account, struct env *env, enum pay_method method,
                              struct str credentials, struct arena *a, struct json_out *out,
                              struct err_info *info);
/* The member that holds the method's credential in an answer and in what is stored: "prepay_id",
 * "code_url", "h5_url". */
const char *wechat_credential_key(enum pay_method method);

#endif
