/* sandbox.c -- making and ending a sandbox, its accounts with their keys, and what a payer or a
 * test does to the books from outside. */
#include "sandbox/internal.h"

#include <assert.h>
#include <stdlib.h>

#include "crypto/x509.h"

#define CERTIFICATE_MS (5 * 365 * DAY_MS)
#define SERIAL_DIGITS  40

/* ---- accounts ---- */

static enum err add_certificate(struct account *account, struct str cert_pem, struct str key_pem,
                                struct arena *a, struct err_info *info)
{
    assert(account->platform_count < PLATFORM_KEYS);
    struct certificate cert = { 0 };
    struct rsa_key *key = NULL;
    enum err e = certificate_from_pem(cert_pem, a, &cert, info);
    if (e)
        return e;
    if (!(e = rsa_private_from_pem(key_pem, &key, info)) &&
        (!cert.key || !rsa_same_public(key, cert.key)))
        e = err_set(info, ERR_INVALID, "the platform's key does not belong to its certificate");
    if (e) {
        rsa_unref(key);
    } else {
        account->platform[account->platform_count++] = (struct platform_key) {
            .serial = str_dup(a, cert.serial),
            .cert_pem = str_dup(a, cert_pem),
            .not_before_ms = cert.not_before_ms,
            .not_after_ms = cert.not_after_ms,
            .key = key,
        };
    }
    certificate_done(&cert);
    return e;
}

enum err sandbox_add_certificate(struct sandbox *s, struct account *account, struct str cert_pem,
                                 struct str key_pem, struct err_info *info)
{
    if (account->platform_count == PLATFORM_KEYS)
        return err_set(info, ERR_LIMIT, "rotated %d times already", PLATFORM_KEYS - 1);
    return add_certificate(account, cert_pem, key_pem, s->arena, info);
}

static enum err load_account(struct account *account, const struct sandbox_wechat *w,
                             struct arena *a, struct err_info *info)
{
    *account = (struct account) {
        .mchid = str_dup(a, w->mchid),
        .appid = str_dup(a, w->appid),
        .merchant_serial = str_dup(a, w->merchant_serial),
        .apiv3_key = str_dup(a, w->apiv3_key),
        .sign_with_public_key = w->sign_with_public_key,
    };
    if (!w->mchid.n || !w->appid.n || !w->merchant_serial.n || w->apiv3_key.n != 32)
        return err_set(info, ERR_INVALID,
                       "a merchant needs mchid, appid, a serial and an APIv3 key of 32 characters");
    enum err e = rsa_public_from_pem(w->merchant_public_pem, &account->merchant, info);
    if (!e && w->platform_cert_pem.n)
        e = add_certificate(account, w->platform_cert_pem, w->platform_key_pem, a, info);
    if (!e && w->platform_cert_pem.n && w->platform_serial.n &&
        !str_eq_nocase(w->platform_serial, account->platform[0].serial))
        e = err_set(info, ERR_INVALID, "the platform's serial is not its certificate's");
    if (!e && w->public_key_id.n) {
        account->public_key.serial = str_dup(a, w->public_key_id);
        e = rsa_private_from_pem(w->public_key_pem.n ? w->public_key_pem : w->platform_key_pem,
                                 &account->public_key.key, info);
    }
    if (!e && !account->public_key.key && (!account->platform_count || w->sign_with_public_key))
        e = err_set(info, ERR_INVALID, "the platform has no key to sign with");
    return e;
}

static void account_done(struct account *account)
{
    rsa_unref(account->merchant);
    rsa_unref(account->public_key.key);
    for (size_t i = 0; i < account->platform_count; i++)
        rsa_unref(account->platform[i].key);
}

struct account *sandbox_account(struct sandbox *s, struct str mchid)
{
    for (size_t i = 0; i < s->account_count; i++)
        if (str_eq(s->accounts[i].mchid, mchid))
            return &s->accounts[i];
    return NULL;
}

/* ---- life ---- */

/* A later start is later by at least the milliseconds that an earlier one lived, and no sandbox
 * gives a thousand ids a millisecond; chance tells those apart that start in the same one. */
static int64_t first_id(struct env *env)
{
    uint16_t chance;
    env_random(env, &chance, sizeof chance);
    return env_now_ms(env) * 1000 + chance % 1000;
}

enum err sandbox_new(const struct sandbox_options *options, struct sandbox **ret,
                     struct err_info *info)
{
    assert(options->wechat_count <= SANDBOX_ACCOUNTS);
    struct sandbox *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->env = options->env;
    s->callbacks = options->callbacks;
    s->manual = options->manual;
    s->senders = options->senders ? options->senders : 4;
    if (s->senders > sizeof s->sender / sizeof s->sender[0])
        s->senders = sizeof s->sender / sizeof s->sender[0];
    s->arena = arena_new(16384);
    s->public_url = str_dup(s->arena, options->public_url);
    s->journal.fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    books_init(&s->books, first_id(s->env));
    sandbox_faults_init(&s->faults, options->seed);
    enum err e = ERR_OK;
    for (size_t i = 0; i < options->wechat_count && !e; i++) {
        struct account *account = &s->accounts[s->account_count++];
        e = load_account(account, &options->wechat[i], s->arena, info);
    }
    if (!e)
        e = sandbox_journal_open(s, options->path, info);
    if (!e && !s->manual)
        e = sandbox_callbacks_start(s, info);
    if (e)
        sandbox_free(s);
    else
        *ret = s;
    return e;
}

void sandbox_free(struct sandbox *s)
{
    if (!s)
        return;
    sandbox_callbacks_stop(s);
    sandbox_journal_close(s);
    for (size_t i = 0; i < s->account_count; i++)
        account_done(&s->accounts[i]);
    books_done(&s->books);
    sandbox_faults_done(&s->faults);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    arena_free(s->arena);
    free(s);
}

struct str sandbox_random_text(struct sandbox *s, struct arena *a, size_t n)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    char *p = arena_alloc(a, n + 1);
    env_random(s->env, p, n);
    for (size_t i = 0; i < n; i++)
        p[i] = letters[(unsigned char)p[i] % (sizeof letters - 1)];
    return (struct str) { p, n };
}

struct str sandbox_random_serial(struct sandbox *s, struct arena *a)
{
    static const char digits[] = "0123456789ABCDEF";
    char *p = arena_alloc(a, SERIAL_DIGITS + 1);
    env_random(s->env, p, SERIAL_DIGITS);
    for (size_t i = 0; i < SERIAL_DIGITS; i++)
        p[i] = digits[p[i] & 15];
    p[0] = '5'; /* positive, and no zero in front */
    return (struct str) { p, SERIAL_DIGITS };
}

/* ---- the payer ---- */

enum err sandbox_pay_locked(struct sandbox *s, struct trade *t, struct err_info *info)
{
    int64_t now_ms = env_now_ms(s->env);
    struct sandbox_fault_rule rule;
    books_age_trade(t, now_ms);
    bool typing =
        t->state == TRADE_CLOSED &&
        sandbox_faults_hit(&s->faults, FAULT_PAY_CLOSED, STR("pay"), t->account->mchid, NULL);
    if (t->state != TRADE_NOTPAY && !typing)
        return err_set(info, ERR_CONFLICT, "the trade is %s", books_trade_state(t->state));
    if (now_ms >= t->expire_ms)
        return err_set(info, ERR_CONFLICT, "the time to pay is over");
    t->taken_fen = t->total_fen;
    if (sandbox_faults_hit(&s->faults, FAULT_WRONG_AMOUNT_TAKEN, STR("pay"), t->account->mchid,
                           &rule))
        t->taken_fen += rule.amount_delta_fen;
    if (t->taken_fen < 0)
        t->taken_fen = 0;
    t->state = TRADE_SUCCESS;
    t->success_ms = now_ms;
    t->account->taken_fen += t->taken_fen;
    sandbox_callbacks_schedule(s, t, NULL, now_ms);
    sandbox_journal_paid(s, t);
    return ERR_OK;
}

enum err sandbox_pay(struct sandbox *s, struct str out_trade_no, struct err_info *info)
{
    sandbox_lock(s);
    struct trade *t = books_trade(&s->books, NULL, out_trade_no);
    enum err e = t ? sandbox_pay_locked(s, t, info)
                   : err_set(info, ERR_NOT_FOUND, "no trade " STR_FMT, STR_ARG(out_trade_no));
    sandbox_unlock(s);
    return e;
}

/* ---- control ---- */

void sandbox_fault(struct sandbox *s, const struct sandbox_fault_rule *rule)
{
    sandbox_lock(s);
    sandbox_faults_add(&s->faults, rule);
    sandbox_unlock(s);
}

void sandbox_clear_faults(struct sandbox *s)
{
    sandbox_lock(s);
    sandbox_faults_clear(&s->faults);
    sandbox_unlock(s);
}

int64_t sandbox_faults_happened(struct sandbox *s)
{
    sandbox_lock(s);
    int64_t n = s->faults.happened;
    sandbox_unlock(s);
    return n;
}

/* The old certificate stays valid: who names it in Wechatpay-Serial gets it; everybody else the new
 * one. */
enum err sandbox_rotate_certificate(struct sandbox *s, struct str mchid, struct arena *a,
                                    struct err_info *info)
{
    struct account *account = sandbox_account(s, mchid);
    if (!account)
        return err_set(info, ERR_NOT_FOUND, "no merchant " STR_FMT, STR_ARG(mchid));
    if (!account->platform_count)
        return err_set(info, ERR_CONFLICT, "this merchant has no platform certificates");

    struct rsa_key *key;
    struct str cert_pem;
    int64_t now_ms = env_now_ms(s->env);
    enum err e = rsa_generate(rsa_bits(account->platform[0].key), &key, info);
    if (e)
        return e;
    e = certificate_make(key, STR("Fenpay sandbox"), sandbox_random_serial(s, a), now_ms - DAY_MS,
                         now_ms + CERTIFICATE_MS, a, &cert_pem, info);
    struct str key_pem = rsa_private_pem(a, key);
    rsa_unref(key);
    if (e)
        return e;
    sandbox_lock(s);
    e = sandbox_add_certificate(s, account, cert_pem, key_pem, info);
    if (!e)
        sandbox_journal_certificate(s, account, cert_pem, key_pem);
    sandbox_unlock(s);
    return e;
}

/* ---- the books from outside ---- */

enum err sandbox_trade_get(struct sandbox *s, struct str out_trade_no, struct arena *a,
                           struct sandbox_trade *ret)
{
    sandbox_lock(s);
    books_age(&s->books, env_now_ms(s->env));
    struct trade *t = books_trade(&s->books, NULL, out_trade_no);
    if (t) {
        books_age_trade(t, env_now_ms(s->env));
        books_copy_trade(t, a, ret);
    }
    sandbox_unlock(s);
    return t ? ERR_OK : ERR_NOT_FOUND;
}

int64_t sandbox_balance_fen(struct sandbox *s, struct str mchid)
{
    struct account *account = sandbox_account(s, mchid);
    if (!account)
        return 0;
    sandbox_lock(s);
    books_age(&s->books, env_now_ms(s->env));
    int64_t balance_fen = account->taken_fen - account->refunded_fen;
    sandbox_unlock(s);
    return balance_fen;
}

size_t sandbox_trades(struct sandbox *s, struct arena *a, struct sandbox_trade **ret)
{
    size_t n = 0;
    sandbox_lock(s);
    int64_t now_ms = env_now_ms(s->env);
    books_age(&s->books, now_ms);
    *ret = arena_array(a, s->books.by_number.count + 1, sizeof **ret);
    list_each (node, &s->books.trades) {
        struct trade *t = container_of(node, struct trade, node);
        books_age_trade(t, now_ms);
        books_copy_trade(t, a, &(*ret)[n++]);
    }
    sandbox_unlock(s);
    return n;
}
