/* channel.h -- what a payment channel can do, in words of our own.
 *
 * An adapter is data (struct channel_info) plus behaviour (struct channel_driver). The core never
 * sees a channel's words: adapters turn callbacks, query answers and call answers into facts, and
 * every call's outcome into one of three answers and, for a refusal, a class that says what may be
 * done next (rules.md section 6). Timeouts, broken bodies, and good-looking answers whose signature
 * does not verify are CHANNEL_UNKNOWN.
 *
 * Threads: every function may be called from any thread at the same time; an account is an
 * immutable snapshot. Results live in the arena of the call. */
#ifndef FENPAY_CHANNEL_H
#define FENPAY_CHANNEL_H

#include "base/cfg.h"
#include "base/env.h"
#include "base/json.h"
#include "base/money.h"
#include "net/client.h"

/* Persisted: pinned in registry.c, never reused. */
enum channel_id { CHANNEL_WECHAT = 1, CHANNEL_ALIPAY = 2, CHANNEL_APPLE = 3 };
enum pay_method { METHOD_NATIVE = 1, METHOD_JSAPI = 2, METHOD_APP = 3, METHOD_H5 = 4 };
enum environment { ENVIRONMENT_DEV = 0, ENVIRONMENT_TEST = 1, ENVIRONMENT_PRODUCTION = 2 };

/* ---- facts (rules.md section 1) ---- */
enum fact_kind {
    FACT_NOTHING,  /* an intermediate notice: recorded, states nothing */
    FACT_ACCEPTED, /* the channel took the prepay request, or the credentials are made */
    FACT_REFUSED,  /* refused for good */
    FACT_PAID,
    FACT_PAY_FAILED,
    FACT_SHUT, /* cannot be paid any more */
    FACT_REFUND_ACCEPTED,
    FACT_REFUND_DONE,
    FACT_REFUND_CLOSED,
    FACT_REFUND_ABNORMAL,
    FACT_REFUND_REVERSED,
};

struct fact {
    enum fact_kind kind;
    struct str pay_no; /* the channel's out_trade_no, as received */
    struct str transaction_id;
    struct str refund_no, channel_refund_id;
    bool ours; /* merchant and app are the account's */
    struct money
        amount; /* the order amount (WeChat amount.total); for refunds the refund's amount */
    struct money payer_amount, channel_discount;
    struct str payer;
    int64_t time_ms; /* the channel's time of the event; 0: not said */
};
#define CHANNEL_FACTS_MAX 4

/* ---- answers of calls (rules.md section 6) ---- */
enum channel_outcome { CHANNEL_DONE, CHANNEL_REFUSED, CHANNEL_UNKNOWN };
enum channel_class {
    CLASS_NONE,    /* not a refusal */
    CLASS_RETRY,   /* nothing happened: safe to repeat */
    CLASS_QUERY,   /* the state differs: ask before deciding */
    CLASS_FINAL,   /* refused for good */
    CLASS_ACCOUNT, /* our account, key or contract is broken: alarm, take it out of routing */
    CLASS_PERSON,  /* somebody has to do something */
};

struct channel_answer {
    enum channel_outcome outcome;
    enum channel_class class;
    bool not_exist; /* a query's "does not exist at the channel" (REFUSED, FINAL) */
    struct fact facts[CHANNEL_FACTS_MAX];
    size_t fact_count;
    struct str credentials; /* prepay: a JSON object of what the client needs, as it is stored */
    int64_t credential_expire_ms;
    bool unknown_key; /* the answer was signed with a key we do not hold: a refresh is wanted */
    /* for channel_call: secrets and payer ids masked */
    struct str code, message; /* the channel's words, for people */
    int http_status;
    struct str channel_request_id;
    struct str request, answer;
    int64_t took_us;
};

struct channel_ctx {
    struct env *env;
    struct transport *transport;
    struct arena *arena;
    struct str trace_id;
};

struct channel_request { /* exactly what is sent, on the first try and on every other one */
    struct str endpoint; /* path (and query) */
    struct str body;
};

struct prepay {
    enum pay_method method;
    struct str pay_no;
    struct money amount;
    struct str
        description;  /* any UTF-8; the adapter shortens and cleans it to what its channel takes */
    struct str payer; /* openid; empty unless the method needs it */
    struct str client_ip;
    struct str return_url;
    int64_t expire_ms; /* when the channel must stop taking money */
};

struct refund_request {
    struct str pay_no, transaction_id; /* the payment, by one of them; the other is empty */
    struct str refund_no;
    struct money amount, total; /* total: what was paid */
    struct str reason;          /* any UTF-8, as prepay's description */
};

/* ---- callbacks ---- */
enum notice_result {
    NOTICE_OK,
    NOTICE_RAW_ONLY, /* verified, but we cannot decrypt or read it: keep the bytes, answer LATER */
    NOTICE_LATER,    /* a key we do not hold yet: refresh, the channel sends again */
    NOTICE_BAD,      /* forged, stale or malformed */
};
enum notice_answer { ANSWER_OK, ANSWER_LATER, ANSWER_BAD };

/* Why a notice is BAD or LATER: counted by reason. */
enum notice_reason {
    NOTICE_REASON_NONE,
    NOTICE_REASON_HEADERS,   /* a required header is missing, repeated or malformed */
    NOTICE_REASON_STALE,     /* timestamp outside the window */
    NOTICE_REASON_SERIAL,    /* unknown key */
    NOTICE_REASON_PROBE,     /* WeChat's SIGNTEST */
    NOTICE_REASON_SIGNATURE, /* does not verify */
    NOTICE_REASON_BODY,      /* verified or not, it is no notice of this channel */
    NOTICE_REASON_DECRYPT,
};
const char *notice_reason_name(enum notice_reason reason);

struct notice_input {
    struct str body;
    const struct http_headers *headers;
    bool stored; /* verified when it came in: no time window */
};

struct notice {
    enum notice_reason reason;
    struct str kind;         /* "TRANSACTION.SUCCESS" */
    struct str transport_id; /* of this delivery's notification */
    struct str
        event_key; /* kind + channel id + state + refund id; for RAW_ONLY "raw:" + transport id */
    struct str subject_no; /* the payment's number as received; empty for RAW_ONLY */
    struct str plain;      /* decrypted text */
    struct fact facts[CHANNEL_FACTS_MAX];
    size_t fact_count;
};

struct notice_reply {
    int status;
    const char *content_type;
    struct str body;
};

/* ---- accounts ---- */
struct wechat_config {
    struct str mchid, appid;
    struct str merchant_key;                  /* PEM text (secret; usually file:) */
    struct str merchant_cert;                 /* PEM text; empty: merchant_serial is given */
    struct str merchant_serial;               /* hex */
    struct str apiv3_key, apiv3_key_previous; /* 32 characters */
    struct str public_key_id, public_key;     /* public-key mode: PUB_KEY_ID_…, PEM */
    struct cfg_str_list platform_certs;       /* PEM texts known from the start (file:) */
    bool download_certs; /* certificate mode: fetch and refresh GET /v3/certificates */
};

struct account_config {
    struct str name;             /* [a-z0-9-]{1,32}: in URLs, metrics, rows */
    int channel;                 /* index into "wechat|…": see account_config_table */
    int environment;             /* enum environment */
    bool retired;                /* no new attempts; callbacks, queries and refunds go on */
    int64_t amount_max_fen;      /* 99,999,999 */
    struct cfg_str_list methods; /* "native", …; empty: all of the channel's */
    struct str api_url;          /* https://api.mch.weixin.qq.com */
    struct str
        notify_url; /* full public address of /notify/{name}; empty: made of notify.public_url */
    int64_t connect_ms, total_ms;
    struct str ca_file;
    struct wechat_config wechat;
};
extern const struct cfg_key account_config_table[];

struct channel_driver;

/* An immutable snapshot: configuration and keys of one account at one time. Taken with
 * registry_ref, let go with account_unref. */
struct account {
    const struct channel_info *info;
    struct account_config config; /* texts in `arena` */
    struct arena *arena;
    unsigned methods;    /* bit per enum pay_method */
    void *keys;          /* the driver's */
    uint64_t generation; /* grows with every swap */
    _Atomic int refs;
};
struct account *account_ref(struct account *a);
void account_unref(struct account *a);

enum channel_capability {
    CHANNEL_CAN_CLOSE = 1,
    CHANNEL_CAN_REFUND = 2,
    CHANNEL_CAN_QUERY_REFUND = 4,
    CHANNEL_HAS_BILLS = 8,
    CHANNEL_REFRESHES_KEYS = 16
};

struct method_info {
    enum pay_method method;
    const char *name; /* "native" */
    bool needs_payer, needs_client_ip;
    bool server_call; /* prepay is a call; else credentials are made locally */
};

struct channel_info {
    enum channel_id id;
    const char *name; /* "wechat" */
    const char *title_zh, *title_en;
    const struct method_info *methods;
    size_t method_count;
    unsigned capabilities;
    const char *currency;     /* the only one */
    int64_t expire_margin_ms; /* how long after time_expire "does not exist" is final */
    int64_t refund_gap_ms;
    int refunds_max;
    const struct channel_driver *driver;
};

struct key_note {         /* for doctor, metrics and alarms */
    struct str what;      /* "platform certificate 5157F09E…" */
    int64_t not_after_ms; /* 0: does not expire */
    bool replaced;        /* another key that lasts longer does the same: its end harms nobody */
};

/* A key learnt at run time, as it is stored so that a restart has the last good set. */
struct learnt_key {
    struct str serial;
    struct str origin; /* whose it is, an opaque word of the adapter's: accounts get renamed, names
                          get used again */
    struct str pem;
    int64_t not_before_ms, not_after_ms;
};
#define LEARNT_KEYS_MAX 16
struct learnt_keys {
    struct learnt_key items[LEARNT_KEYS_MAX];
    size_t count;
};

struct channel_driver {
    /* Makes the keys of an account from its configuration; refuses what does not fit together (key
     * and certificate, lengths, expired). Required. */
    enum err (*keys_open)(struct account *account, struct env *env, struct err_info *info);
    void (*keys_close)(struct account *account);
    size_t (*keys_notes)(const struct account *account, struct arena *a, struct key_note ret[],
                         size_t max);
    /* Who the account is to the channel, for programs to compare and people to read: "mchid=…
     * appid=…". Under another word the channel does not know its payments. At most 150 bytes.
     * Required. */
    struct str (*contract)(const struct account *account, struct arena *a);

    /* The exact request to send for this payment. ERR_INVALID: a field the channel would not take
     * (names it). Required. */
    enum err (*prepay_build)(const struct account *account, const struct prepay *p, struct arena *a,
                             struct channel_request *ret, struct err_info *info);
    void (*prepay)(struct account *account, const struct channel_ctx *ctx, enum pay_method method,
                   const struct channel_request *request, struct channel_answer *ret);
    /* What the client gets: prints members into `out` (an object is open) from the stored
     * credentials; signs anew where the channel wants it (JSAPI, APP). Required. */
    enum err (*client_params)(struct account *account, struct env *env, enum pay_method method,
                              struct str credentials, struct arena *a, struct json_out *out,
                              struct err_info *info);
    /* Facts, or "does not exist". Required. */
    void (*query)(struct account *account, const struct channel_ctx *ctx, struct str pay_no,
                  struct channel_answer *ret);
    /* DONE: SHUT. CHANNEL_CAN_CLOSE. */
    void (*close)(struct account *account, const struct channel_ctx *ctx, struct str pay_no,
                  struct channel_answer *ret);

    /* CHANNEL_CAN_REFUND. */
    enum err (*refund_build)(const struct account *account, const struct refund_request *r,
                             struct arena *a, struct channel_request *ret, struct err_info *info);
    void (*refund)(struct account *account, const struct channel_ctx *ctx,
                   const struct channel_request *request, struct channel_answer *ret);
    void (*query_refund)(struct account *account, const struct channel_ctx *ctx,
                         struct str refund_no, struct channel_answer *ret);

    /* Computation on the received bytes only. Required. */
    enum notice_result (*read_notice)(struct account *account, struct env *env,
                                      const struct notice_input *in, struct arena *a,
                                      struct notice *ret, struct err_info *info);
    void (*answer_notice)(const struct account *account, enum notice_answer answer,
                          struct notice_reply *ret);
    /* Is a PAID fact for exactly this payment's amount? Pure. Required. */
    bool (*paid_equal)(const struct account *account, const struct fact *fact, struct money amount);

    /* CHANNEL_REFRESHES_KEYS: fetches the current keys, believed as far as the channel's rules go;
     * none when the configuration does not want them fetched. Whether they are new is keys_add's
     * question. Texts in the arena of the call. */
    enum err (*refresh_keys)(struct account *account, const struct channel_ctx *ctx,
                             struct learnt_keys *ret, struct err_info *info);
    /* CHANNEL_REFRESHES_KEYS: a new snapshot with those of the keys, fetched or stored, that are
     * this account's and that it does not hold yet; what it holds is kept. ERR_OK with *ret NULL:
     * none. Whatever does not fit (another account's, no certificate, another serial than it says)
     * is left out and counted in *ret_refused. */
    enum err (*keys_add)(struct account *account, const struct learnt_keys *keys,
                         struct account **ret, size_t *ret_refused, struct err_info *info);
    /* Bills (T+1): CHANNEL_HAS_BILLS. */
    enum err (*bill_download)(struct account *account, const struct channel_ctx *ctx, int yyyymmdd,
                              int fd, struct err_info *info);
};

extern const struct channel_info wechat_info;

#endif
