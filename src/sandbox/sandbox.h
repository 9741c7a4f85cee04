/* sandbox.h -- a stand-in for the channels, with its own books and its own signing code, and faults
 * on demand (api.md section 5).
 *
 * Uses base, crypto and net only: it must not share a signing bug with the adapters. Speaks HTTP on
 * a listener of its own, or in process through a struct transport (demo, simulator). Callbacks
 * leave through a transport, signed with the platform key; in manual mode they wait for
 * sandbox_turn. What it believes stands in memory, and with a `path` in a file, too, from which the
 * next one goes on. Numbers that it gives are never given again, with a file or without.
 * Thread-safe; its HTTP handlers do not block, so a listener with two loops keeps two cores busy
 * with signing (about 3,000 prepays/s a core). */
#ifndef FENPAY_SANDBOX_H
#define FENPAY_SANDBOX_H

#include "net/client.h"
#include "net/server.h"

/* One merchant's WeChat account as the channel sees it. */
struct sandbox_wechat {
    struct str mchid, appid;
    struct str merchant_public_pem, merchant_serial; /* how requests are verified */
    struct str apiv3_key;
    struct str platform_key_pem;                   /* private: signs answers and callbacks */
    struct str platform_cert_pem, platform_serial; /* certificate mode */
    struct str public_key_id;  /* public-key mode: PUB_KEY_ID_… (same private key unless
                                  public_key_pem given) */
    struct str public_key_pem; /* private half for public-key mode; empty: platform_key_pem */
    bool sign_with_public_key; /* callbacks use the id instead of the certificate's serial */
};

struct sandbox_options {
    struct env *env;
    struct sandbox_wechat wechat[8];
    size_t wechat_count;
    struct transport *callbacks; /* carries callbacks to us; NULL: they wait until there is one */
    bool manual;                 /* no thread: due callbacks are sent by sandbox_turn */
    uint64_t seed;               /* probability faults */
    struct str public_url;       /* of the phone page, for code_url links; empty: none */
    unsigned senders;            /* threads that send callbacks when not manual; 0: 4 */
    struct str path;             /* the books' file, made when missing; empty: memory only */
};

struct sandbox;
enum err sandbox_new(const struct sandbox_options *options, struct sandbox **ret,
                     struct err_info *info);
void sandbox_free(struct sandbox *s);
/* /v3/… the channel, /phone/… the payer's phone, /sandbox/v1/… control. */
extern const struct http_route sandbox_routes[];
/* The same without HTTP: what curl would carry to api_url, answered in process. */
struct transport *sandbox_transport(struct sandbox *s);

/* Another carrier of callbacks from now on; those that waited for one go out at once. */
void sandbox_set_callbacks(struct sandbox *s, struct transport *callbacks);

/* Sends what is due at env_now_ms (resend schedule 15s,15s,30s,3m,…); how many. */
size_t sandbox_turn(struct sandbox *s);
int64_t sandbox_next_ms(struct sandbox *s); /* when something is due next; 0: nothing */

/* ---- control, the same as POST /sandbox/v1/… ---- */
enum err sandbox_pay(struct sandbox *s, struct str out_trade_no,
                     struct err_info *info); /* the payer pays; the callback is scheduled now */

/* The merchant gives money back by hand in the channel's own portal: a refund under a number that
 * is not the centre's, told to the trade's notify address. ERR_NOT_FOUND, ERR_CONFLICT: not so much
 * is left. */
enum err sandbox_refund_by_hand(struct sandbox *s, struct str out_trade_no, int64_t amount_fen,
                                struct err_info *info);
/* Refunds that were stuck end well after all, in a few seconds. */
void sandbox_refunds_go_on(struct sandbox *s);

/* Faults happen by rules, tried in the order in which they were given. Those of callbacks count
 * each sending (DELAY, DUPLICATE and REORDER: each notification), so that with `times` 1 the resend
 * after 15 s is a right one. */
enum sandbox_fault {
    FAULT_CALLBACK_LOSE,      /* sent, never arrives */
    FAULT_CALLBACK_DELAY,     /* `delay_ms` later than it should */
    FAULT_CALLBACK_DUPLICATE, /* `copies` more of the same (0: one), at the same time */
    FAULT_CALLBACK_REORDER,   /* comes behind the account's next one, `delay_ms` later at most
                                 (0: a minute) */
    FAULT_CALLBACK_BAD_SIGNATURE,
    FAULT_CALLBACK_CORRUPT,      /* rightly signed, but does not decrypt */
    FAULT_CALLBACK_PROBE,        /* WECHATPAY/SIGNTEST/… */
    FAULT_CALLBACK_WRONG_AMOUNT, /* only the callback lies, by `amount_delta_fen` (0: 1) */
    FAULT_CALLBACK_WRONG_MERCHANT,
    FAULT_CALLBACK_UNKNOWN_SERIAL, /* rightly signed, under a serial that nobody knows */
    FAULT_ANSWER_LOST,             /* the work is done, the answer never comes */
    FAULT_TIMEOUT,                 /* nothing is done, no answer comes */
    FAULT_NOT_SENT,                /* connect fails; over HTTP no more than TIMEOUT */
    FAULT_ERROR,                   /* refuses with `code` and `status` (0: 400) */
    FAULT_HTTP_500,                /* nothing is done */
    FAULT_HTTP_429,                /* nothing is done */
    FAULT_UNSIGNED,                /* the work is done, the answer has no signature */
    FAULT_BAD_SIGNATURE,           /* … has a wrong one */
    FAULT_GARBAGE,                 /* … is rightly signed, but half of a JSON */
    FAULT_WRONG_AMOUNT_TAKEN,      /* the payer really pays `amount_delta_fen` more: books, callback
                                      and query agree */
    FAULT_HTTP_429_DONE,     /* answers 429, and the work is done (WeChat does so to refunds) */
    FAULT_REFUND_STUCK,      /* an accepted refund stays PROCESSING */
    FAULT_REFUND_CLOSED,     /* … ends CLOSED */
    FAULT_REFUND_ABNORMAL,   /* … ends ABNORMAL */
    FAULT_CALLBACK_UNSIGNED, /* without any Wechatpay- header */
    FAULT_PAY_CLOSED,    /* the payer was typing while the trade was closed, and it still pays */
    FAULT_REFUND_UNSEEN, /* in its first minute a refund is not known to queries, as WeChat warns */
};
#define SANDBOX_FAULTS (FAULT_REFUND_UNSEEN + 1)
struct sandbox_fault_rule {
    enum sandbox_fault fault;
    /* "prepay", "query", "close", "refund", "query_refund", "certificates"; "*" or empty: any. Not
     * looked at for faults of callbacks, payers and refunds. */
    struct str call;
    struct str mchid; /* "*" or empty: any */
    struct str code;  /* FAULT_ERROR */
    int status;       /* FAULT_ERROR */
    /* ANSWER_LOST, TIMEOUT: how long the caller waits before it ends (0: not at all). */
    int64_t delay_ms;
    int64_t amount_delta_fen;
    int times;   /* so often; 0: until it is cleared */
    int percent; /* 1..100; 0: 100 */
    int copies;
};
void sandbox_fault(struct sandbox *s, const struct sandbox_fault_rule *rule);
void sandbox_clear_faults(struct sandbox *s);
int64_t sandbox_faults_happened(struct sandbox *s); /* since it was made */
/* Makes a new key and certificate; GET /v3/certificates lists both from now on. Who names the old
 * serial in Wechatpay-Serial still gets it; callbacks and everybody else get the new one. */
enum err sandbox_rotate_certificate(struct sandbox *s, struct str mchid, struct arena *a,
                                    struct err_info *info);

/* ---- the books ---- */
struct sandbox_trade {
    struct str mchid, out_trade_no, transaction_id, state; /* NOTPAY SUCCESS REFUND CLOSED */
    int64_t total_fen, taken_fen, refunded_fen, success_ms;
    int prepays, queries, closes, callbacks_sent, callbacks_acknowledged;
};
/* Copies into the arena. ERR_NOT_FOUND. */
enum err sandbox_trade_get(struct sandbox *s, struct str out_trade_no, struct arena *a,
                           struct sandbox_trade *ret);
/* Money the channel holds for the merchant: taken - refunded. */
int64_t sandbox_balance_fen(struct sandbox *s, struct str mchid);
size_t sandbox_trades(struct sandbox *s, struct arena *a, struct sandbox_trade **ret);

struct sandbox_refund {
    struct str out_trade_no, out_refund_no, refund_id,
        state; /* PROCESSING SUCCESS CLOSED ABNORMAL */
    int64_t amount_fen;
};
/* Likewise; for any merchant. */
enum err sandbox_refund_get(struct sandbox *s, struct str out_refund_no, struct arena *a,
                            struct sandbox_refund *ret);
size_t sandbox_refunds(struct sandbox *s, struct arena *a, struct sandbox_refund **ret);

#endif
