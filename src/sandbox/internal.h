/* internal.h -- what the files of sandbox/ share: the accounts, the books, the callbacks that wait,
 * and the one handler behind both HTTP and the in-process transport.
 *
 * One mutex guards everything that changes. It is never held while something is signed, verified or
 * sent, so the sandbox keeps up with a centre under load. */
#ifndef FENPAY_SANDBOX_INTERNAL_H
#define FENPAY_SANDBOX_INTERNAL_H

#include <pthread.h>

#include "base/json.h"
#include "base/list.h"
#include "crypto/digest.h"
#include "crypto/rsa.h"
#include "sandbox/sandbox.h"

#define SANDBOX_ACCOUNTS 8
#define PLATFORM_KEYS    8 /* certificates an account can have had */
#define MINUTE_MS        60000LL
#define DAY_MS           86400000LL

/* ---- accounts ---- */

struct platform_key {
    struct str serial;   /* certificate serial, or PUB_KEY_ID_… */
    struct str cert_pem; /* empty: public-key mode */
    int64_t not_before_ms, not_after_ms;
    struct rsa_key *key;
};

struct account {
    struct str mchid, appid, merchant_serial, apiv3_key; /* fixed */
    struct rsa_key *merchant;                            /* public */
    struct platform_key platform[PLATFORM_KEYS];         /* certificates, the newest last */
    size_t platform_count;
    struct platform_key public_key; /* key NULL: none */
    bool sign_with_public_key;
    int64_t taken_fen, refunded_fen, withdrawn_fen;
    struct delivery *held; /* a reordered callback that waits for the next one */
};

/* ---- the books ---- */

enum trade_state { TRADE_NOTPAY, TRADE_SUCCESS, TRADE_REFUND, TRADE_CLOSED };
enum trade_product { PRODUCT_JSAPI, PRODUCT_NATIVE, PRODUCT_APP, PRODUCT_H5 };
enum refund_state { REFUND_PROCESSING, REFUND_SUCCESS, REFUND_CLOSED, REFUND_ABNORMAL };

struct trade {
    struct list node; /* books->trades, oldest first */
    struct trade *hash_next, *id_next;
    struct account *account;
    enum trade_product product;
    enum trade_state state;
    struct sha256 request; /* product and bytes of the first prepay: later ones must be equal */
    struct str out_trade_no, transaction_id, description, attach, openid, notify_url, device_id;
    int64_t created_ms, expire_ms, success_ms;
    int64_t total_fen, taken_fen, refunded_fen;
    struct list refunds;
    int64_t refunded_ms; /* when the last refund was accepted */
    int refund_count;
    int prepays, queries, closes, callbacks_sent, callbacks_acknowledged;
    struct delivery *callback; /* of the payment, while it waits or is sent; not a copy */
};

struct refund {
    struct list node;    /* trade->refunds */
    struct list pending; /* books->pending, while it has not come to its end */
    struct refund *hash_next;
    struct trade *trade;
    struct sha256 request;
    struct str out_refund_no, refund_id, notify_url;
    enum refund_state state, end; /* what it is, what it becomes at end_ms */
    int64_t created_ms, end_ms;   /* end_ms 0: it is at its end, or stuck */
    int64_t amount_fen;
    struct delivery *callback; /* as a trade's */
};

struct trade_table {
    struct trade **bucket, **id_bucket;
    size_t buckets, count;
};
struct refund_table {
    struct refund **bucket;
    size_t buckets, count;
};

struct books {
    struct list trades;
    struct list pending; /* refunds, the one that ends first in front */
    struct trade_table by_number;
    struct refund_table by_refund_number;
    int64_t next_id; /* of the next transaction or refund */
};

/* Ids start at `first_id`: what grows with every start, and faster than ids are given. */
void books_init(struct books *b, int64_t first_id);
void books_done(struct books *b);
/* Takes a trade's texts over by copying them. The number must be free. With a transaction_id (from
 * an earlier life) the trade keeps it; so do refunds with theirs. */
struct trade *books_add_trade(struct books *b, const struct trade *like);
/* `account` NULL: whoever has the number. */
struct trade *books_trade(struct books *b, const struct account *account, struct str out_trade_no);
struct trade *books_trade_by_id(struct books *b, struct str transaction_id);
struct refund *books_add_refund(struct books *b, const struct refund *like);
struct refund *books_refund(struct books *b, const struct account *account,
                            struct str out_refund_no);
/* What time alone changes: the close after seven days, refunds that come to their end. */
void books_age_trade(struct trade *t, int64_t now_ms);
void books_age(struct books *b, int64_t now_ms);
const char *books_trade_state(enum trade_state state);
const char *books_refund_state(enum refund_state state);
void books_copy_trade(const struct trade *t, struct arena *a, struct sandbox_trade *ret);

/* ---- callbacks ---- */

struct delivery {
    size_t place; /* in the heap */
    int64_t due_ms;
    uint64_t seq;
    struct account *account;
    struct trade *trade;
    struct refund *refund; /* NULL: of the payment */
    struct str body;       /* the envelope, once printed; heap */
    int attempt;           /* sendings so far */
    int copies;            /* duplicates that go out with the first sending */
    bool is_copy;          /* never sent again */
};

struct queue {
    struct delivery **heap;
    size_t count, room;
    uint64_t seq;
};

/* From an earlier life: waits until `due_ms`, and what is known of its sendings so far (`due_ms` 0:
 * it was the last one). */
void sandbox_callbacks_restore(struct sandbox *s, struct trade *t, struct refund *r,
                               int64_t due_ms);
void sandbox_callbacks_resume(struct sandbox *s, struct delivery *d, int attempt, int64_t due_ms,
                              struct str body);
/* With the lock held. */
void sandbox_callbacks_schedule(struct sandbox *s, struct trade *t, struct refund *r,
                                int64_t due_ms);
enum err sandbox_callbacks_start(struct sandbox *s, struct err_info *info);
void sandbox_callbacks_stop(struct sandbox *s);

/* ---- faults ---- */

struct fault_entry {
    struct fault_entry *next;
    struct sandbox_fault_rule rule;
};

struct faults {
    struct arena *arena;
    struct fault_entry *first, **last;
    struct rand rand;
    int64_t happened;
};

void sandbox_faults_init(struct faults *f, uint64_t seed);
void sandbox_faults_done(struct faults *f);
void sandbox_faults_add(struct faults *f, const struct sandbox_fault_rule *rule);
void sandbox_faults_clear(struct faults *f);
/* True when a rule says so now; counts it down. `ret` (may be NULL): the rule; its texts stay until
 * sandbox_faults_clear, copy what is needed while the lock is held. */
bool sandbox_faults_hit(struct faults *f, enum sandbox_fault fault, struct str call,
                        struct str mchid, struct sandbox_fault_rule *ret);
const char *sandbox_fault_name(enum sandbox_fault fault);
bool sandbox_fault_of_name(struct str name, enum sandbox_fault *ret);

/* ---- the books' file ---- */

struct journal {
    int fd; /* -1: memory only */
    struct str path;
};

/* Replays what is there; an empty path opens none. */
enum err sandbox_journal_open(struct sandbox *s, struct str path, struct err_info *info);
void sandbox_journal_close(struct sandbox *s);
/* What has just happened. Lock held. */
void sandbox_journal_trade(struct sandbox *s, const struct trade *t);
void sandbox_journal_paid(struct sandbox *s, const struct trade *t);
void sandbox_journal_closed(struct sandbox *s, const struct trade *t);
void sandbox_journal_refund(struct sandbox *s, const struct refund *r);
void sandbox_journal_callback(struct sandbox *s, const struct delivery *d, bool acknowledged,
                              bool over);
void sandbox_journal_withdrawn(struct sandbox *s, const struct account *account, int64_t fen);
void sandbox_journal_certificate(struct sandbox *s, const struct account *account,
                                 struct str cert_pem, struct str key_pem);
void sandbox_journal_key_mode(struct sandbox *s, const struct account *account);

/* ---- the whole ---- */

struct sandbox {
    struct env *env;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct arena *arena; /* fixed texts */
    struct account accounts[SANDBOX_ACCOUNTS];
    size_t account_count;
    struct str public_url;
    struct transport transport;
    struct transport *callbacks;
    bool manual, stopping;
    struct books books;
    struct queue queue;
    struct faults faults;
    struct journal journal;
    pthread_t sender[16];
    unsigned senders, senders_started;
};

struct account *sandbox_account(struct sandbox *s, struct str mchid);
/* Signs from now on. Lock held, or nobody else there yet. */
enum err sandbox_add_certificate(struct sandbox *s, struct account *account, struct str cert_pem,
                                 struct str key_pem, struct err_info *info);
struct str sandbox_random_text(struct sandbox *s, struct arena *a, size_t n); /* [0-9A-Za-z] */
struct str sandbox_random_serial(struct sandbox *s, struct arena *a);         /* 40 hex digits */
/* With the lock held: pays the trade and schedules its callback. */
enum err sandbox_pay_locked(struct sandbox *s, struct trade *t, struct err_info *info);

static inline void sandbox_lock(struct sandbox *s)
{
    pthread_mutex_lock(&s->lock);
}
static inline void sandbox_unlock(struct sandbox *s)
{
    pthread_mutex_unlock(&s->lock);
}

/* ---- requests and answers, whatever carries them ---- */

enum answer_outcome { ANSWER_COMPLETE, ANSWER_NEVER_COMES, ANSWER_NOT_REACHED };

struct answer {
    enum answer_outcome outcome;
    int64_t hold_ms; /* NEVER_COMES: how long the caller is kept waiting */
    int status;
    const char *content_type; /* NULL: no body */
    struct str body;
    struct http_header headers[8];
    size_t header_count;
};

struct request {
    struct sandbox *s;
    struct arena *arena;
    struct str method, target; /* as received */
    struct http_headers headers;
    struct str body;
    struct str path, query; /* of the target */
    struct answer *answer;
};

void sandbox_handle(struct request *r);
void sandbox_answer_header(struct answer *a, const char *name, struct str value);
void sandbox_answer_set(struct answer *a, int status, const char *content_type, struct str body);
/* Where `what` first stands in `s`; s.n: nowhere. */
size_t sandbox_find(struct str s, const char *what);
/* Decoded; STR_NONE when absent or broken. */
struct str sandbox_request_query(struct request *r, const char *key);

void sandbox_v3_handle(struct request *r);
void sandbox_control_handle(struct request *r);
void sandbox_phone_handle(struct request *r);

/* ---- WeChat Pay ---- */

/* One call of a merchant that has proved who it is. */
struct wechat_call {
    struct request *r;
    struct sandbox *s;
    struct arena *arena;
    struct account *account;
    struct str param; /* the number in the path */
    enum trade_product product;
    const struct json *body; /* NULL for GET */
};

/* Answers and returns false, so that refusing is one line. */
bool sandbox_v3_refuse(struct request *r, int status, const char *code, const char *message);
bool sandbox_v3_refuse_field(struct request *r, const char *field, struct str value,
                             const char *issue);
/* A text member with its limits in characters; absent and not required leaves *ret alone. `field`
 * is its JSON pointer. */
bool sandbox_v3_text(struct wechat_call *c, const struct json *object, const char *field,
                     size_t min, size_t max, bool required, struct str *ret);
bool sandbox_v3_number(struct wechat_call *c, const struct json *object, const char *field,
                       int64_t min, bool required, int64_t *ret);
bool sandbox_v3_notify_url(struct wechat_call *c, size_t max, bool required, struct str *ret);
bool sandbox_v3_is_number(struct str s, size_t min, size_t max, const char *extra);
void sandbox_v3_prepay(struct wechat_call *c);
void sandbox_v3_query(struct wechat_call *c);
void sandbox_v3_query_id(struct wechat_call *c);
void sandbox_v3_close(struct wechat_call *c);
void sandbox_v3_refund_create(struct wechat_call *c);
void sandbox_v3_refund_query(struct wechat_call *c);

/* Prints the Transaction of protocol 5.2: what queries and callbacks tell. Lock held. */
struct transaction_lie {
    int64_t amount_delta_fen;
    struct str mchid; /* empty: the true one */
};
void sandbox_v3_print(const struct trade *t, enum trade_state state,
                      const struct transaction_lie *lie, struct arena *a, struct json_out *o);

/* Who made this call, or an answer already given and NULL. */
struct account *sandbox_v3_authorize(struct request *r);
/* The key that signs, as the header asks or by default; its reference belongs to the caller. Lock
 * held. */
struct platform_key sandbox_v3_signer(struct account *account, struct str wanted, struct arena *a);
/* Base64 over "timestamp\nnonce\nbody\n". */
struct str sandbox_v3_signature(struct rsa_key *key, struct str timestamp, struct str nonce,
                                struct str body, struct arena *a);

#endif
