/* post.c -- one event to one webhook: printed as CloudEvents, signed after the Standard Webhooks
 * convention, sent to an address that was looked at before (resolved, private ranges refused,
 * pinned; the transport follows no redirect). */
#include "bus/bus_inner.h"

#include "base/buf.h"
#include "base/killpoint.h"
#include "crypto/digest.h"
#include "crypto/secret.h"

#define POST_CONNECT_MS 5000
#define POST_TOTAL_MS   15000
#define POST_ANSWER_MAX 65536
#define POST_BODY_MAX   (2 * EVENT_DATA_MAX)
#define SECRET_PREFIX   "whsec_"

/* Without the prefix a secret is its own bytes. */
static enum err signing_key(struct arena *a, struct str secret, struct str *ret)
{
    if (!str_starts(secret, STR(SECRET_PREFIX))) {
        *ret = secret;
        return ERR_OK;
    }
    return str_unbase64(a, str_sub(secret, sizeof SECRET_PREFIX - 1, secret.n), ret);
}

struct str webhook_signature(struct arena *a, struct str id, int64_t timestamp_s, struct str body,
                             const struct str secrets[], size_t n)
{
    struct buf message, out;
    buf_init_arena(&message, a, body.n + 256);
    buf_add_str(&message, id);
    buf_printf(&message, ".%lld.", (long long)timestamp_s);
    buf_add_str(&message, body);

    buf_init_arena(&out, a, 1024);
    for (size_t i = 0; i < n; i++) {
        struct str key;
        if (signing_key(a, secrets[i], &key))
            continue;
        struct sha256 mac = hmac_sha256(key, buf_str(&message));
        if (out.n)
            buf_add_char(&out, ' ');
        buf_add_str(&out, STR("v1,"));
        buf_add_str(&out, str_base64(a, sha256_str(&mac)));
    }
    return buf_str(&out);
}

struct letter {
    struct bus *bus;
    struct arena *a;
    int64_t webhook_id, event_id;
    bool on;
    struct str id, url, secret, secret_old, body; /* in `a` */
};

static enum err read_letter(struct tx *tx, void *arg, struct err_info *info)
{
    struct letter *l = arg;
    struct webhook_row row;
    struct event event;
    struct buf body;
    enum err e;

    if ((e = webhook_sql_load(tx, l->webhook_id, &row, info)) ||
        (e = outbox_sql_read(tx, l->event_id, &event, info)))
        return e;
    buf_init_arena(&body, l->a, POST_BODY_MAX);
    event_print(&event, l->bus->o.source, &body);
    if (!buf_ok(&body))
        return err_set(info, ERR_LIMIT, "the event is too large");
    l->on = row.webhook.on;
    l->id = number_str(l->a, event.no);
    l->url = str_dup(l->a, row.webhook.url);
    l->secret = str_dup(l->a, row.secret);
    l->secret_old = row.secret_old.n ? str_dup(l->a, row.secret_old) : STR_NONE;
    l->body = buf_str(&body);
    return ERR_OK;
}

static enum err open_secrets(const struct letter *l, struct str ret[2], size_t *ret_n,
                             struct err_info *info)
{
    struct str name = str_printf(l->a, WEBHOOK_TARGET "%lld", (long long)l->webhook_id);
    struct str master = l->bus->o.master_key;
    size_t n = 1;
    enum err e = secret_decrypt(master, name, l->secret, l->a, &ret[0], info);

    if (!e && l->secret_old.n) {
        e = secret_decrypt(master, name, l->secret_old, l->a, &ret[1], info);
        n = 2;
    }
    if (!e)
        *ret_n = n;
    return e;
}

enum err webhook_send(struct bus *bus, struct arena *a, int64_t webhook_id, int64_t event_id,
                      bool *ret_unreachable, struct err_info *info)
{
    struct letter l = { .bus = bus, .a = a, .webhook_id = webhook_id, .event_id = event_id };
    struct env *env = bus->o.env;
    struct str secrets[2], address;
    struct url url;
    size_t n;
    enum err e;

    arena_mark_secret(a);
    *ret_unreachable = false;
    if ((e = store_read(bus->o.store, 0, "webhook.read", read_letter, &l, info)))
        return e;
    if (!l.on)
        return err_set(info, ERR_CONFLICT, "the webhook is switched off");
    if ((e = open_secrets(&l, secrets, &n, info)) || (e = url_parse(l.url, &url, info)))
        return e;
    if ((e = resolve_public(url.host, !bus->o.webhook_private, a, &address, info))) {
        *ret_unreachable = true;
        return e;
    }

    int64_t now_s = env_now_ms(env) / 1000;
    struct http_header headers[] = {
        { STR("Content-Type"), STR("application/json") },
        { STR("User-Agent"), STR("Fenpay/" FENPAY_VERSION) },
        { STR("webhook-id"), l.id },
        { STR("webhook-timestamp"), str_printf(a, "%lld", (long long)now_s) },
        { STR("webhook-signature"), webhook_signature(a, l.id, now_s, l.body, secrets, n) },
    };
    struct http_call call = {
        .method = "POST",
        .url = l.url,
        .headers = { headers, sizeof headers / sizeof *headers },
        .body = l.body,
        .connect_ms = POST_CONNECT_MS,
        .total_ms = POST_TOTAL_MS,
        .answer_max = POST_ANSWER_MAX,
        .pin_address = address,
    };
    struct http_reply reply = { .status = 0 };
    transport_exchange(bus->o.transport, env, &call, a, &reply);
    kill_point("delivery.posted");

    if (reply.outcome != HTTP_ANSWERED) {
        *ret_unreachable = true;
        return err_set(info, ERR_IO, "no answer: " STR_FMT, STR_ARG(reply.trouble));
    }
    if (reply.status < 200 || reply.status > 299)
        return err_set(info, ERR_CONFLICT, "answered %d", reply.status);
    return ERR_OK;
}
