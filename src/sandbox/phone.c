/* phone.c -- the payer's phone, played by a web page: what waits to be paid, newest first, each
 * with its QR code and a button that pays.
 *
 * Plain HTML without scripts, made for a small screen; Chinese or English as the browser asks.
 * Every text of a merchant is escaped. */
#include "sandbox/internal.h"

#include <qrencode.h>

#include "base/clock.h"

#define SHOWN_MAX 20

struct words {
    const char *lang, *title, *empty, *pay, *paid, *refunded, *closed, *expired, *back, *waiting,
        *unknown;
};

static const struct words chinese = {
    "zh-CN",  "付款人的手机（沙箱）", "没有待支付的订单", "付款",   "已支付",        "已退款",
    "已关闭", "已过支付期限",         "全部待支付订单",   "待支付", "没有这个订单号"
};
static const struct words english = { "en",
                                      "The payer's phone (sandbox)",
                                      "Nothing waits to be paid",
                                      "Pay",
                                      "Paid",
                                      "Refunded",
                                      "Closed",
                                      "Too late to pay",
                                      "All that waits",
                                      "To be paid",
                                      "No order has this number" };

static const char style[] =
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,-apple-system,\"PingFang SC\",\"Microsoft YaHei\",sans-serif;"
    "margin:0 auto;max-width:30rem;padding:1rem}"
    "h1{font-size:1.2rem}"
    "article{border:1px solid #8884;border-radius:.75rem;padding:1rem;margin:0 0 1rem}"
    ".amount{font-size:1.8rem;font-weight:600;margin:0}"
    ".no{font:.8rem ui-monospace,monospace;opacity:.7;word-break:break-all;margin:.25rem 0}"
    "svg{display:block;width:11rem;margin:.75rem auto;background:#fff;border-radius:.5rem}"
    "button{width:100%;min-height:3rem;border:0;border-radius:.5rem;background:#067a3d;color:#fff;"
    "font:inherit;font-weight:600}"
    "button:focus-visible{outline:3px solid #0a84ff}"
    "a{color:inherit}";

static const struct words *words_for(const struct request *r)
{
    struct str asked = http_header_get(&r->headers, "Accept-Language", NULL);
    return sandbox_find(asked, "zh") < sandbox_find(asked, "en") ? &chinese : &english;
}

static void add_text(struct buf *b, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        switch (text.p[i]) {
        case '<':
            buf_add_str(b, STR("&lt;"));
            break;
        case '>':
            buf_add_str(b, STR("&gt;"));
            break;
        case '&':
            buf_add_str(b, STR("&amp;"));
            break;
        case '"':
            buf_add_str(b, STR("&quot;"));
            break;
        case '\'':
            buf_add_str(b, STR("&#39;"));
            break;
        default:
            buf_add_char(b, text.p[i]);
        }
    }
}

/* One path: a rectangle for every run of dark modules, with the quiet zone of four around. */
static void add_qr(struct buf *b, const char *text)
{
    QRcode *qr = QRcode_encodeString8bit(text, 0, QR_ECLEVEL_M);
    if (!qr)
        return;
    int n = qr->width;
    buf_printf(b,
               "<svg role=\"img\" aria-label=\"QR\" viewBox=\"0 0 %d %d\" "
               "shape-rendering=\"crispEdges\"><path fill=\"#000\" d=\"",
               n + 8, n + 8);
    for (int y = 0; y < n; y++) {
        for (int x = 0, end; x < n; x = end) {
            end = x + 1;
            if (!(qr->data[y * n + x] & 1))
                continue;
            while (end < n && (qr->data[y * n + end] & 1))
                end++;
            buf_printf(b, "M%d %dh%dv1h-%dz", x + 4, y + 4, end - x, end - x);
        }
    }
    buf_add_str(b, STR("\"/></svg>"));
    QRcode_free(qr);
}

/* Where a real phone would get by scanning. */
static const char *page_of(struct request *r, struct str out_trade_no)
{
    struct str base = r->s->public_url;
    if (!base.n) {
        struct str host = http_header_get(&r->headers, "Host", NULL);
        base = str_printf(r->arena, "http://" STR_FMT, STR_ARG(host.n ? host : STR("localhost")));
    }
    struct str url = str_printf(r->arena, STR_FMT "/phone/" STR_FMT, STR_ARG(base),
                                STR_ARG(str_percent(r->arena, out_trade_no)));
    return str_cstr(r->arena, url);
}

static const char *state_word(const struct words *w, const struct trade *t, int64_t now_ms)
{
    switch (t->state) {
    case TRADE_NOTPAY:
        return now_ms < t->expire_ms ? w->waiting : w->expired;
    case TRADE_SUCCESS:
        return w->paid;
    case TRADE_REFUND:
        return w->refunded;
    case TRADE_CLOSED:
        return w->closed;
    }
    return "";
}

/* Lock held. */
static void add_trade(struct request *r, struct buf *b, const struct words *w,
                      const struct trade *t, int64_t now_ms)
{
    bool payable = t->state == TRADE_NOTPAY && now_ms < t->expire_ms;
    int64_t fen = t->success_ms ? t->taken_fen : t->total_fen;
    buf_printf(b, "<article><p class=\"amount\">&yen;%lld.%02d</p><p>", (long long)(fen / 100),
               (int)(fen % 100));
    add_text(b, t->description);
    buf_printf(b, "</p><p class=\"no\">");
    add_text(b, t->out_trade_no);
    buf_printf(b, " &middot; " STR_FMT "</p>", STR_ARG(clock_rfc3339(r->arena, t->created_ms)));
    if (!payable) {
        buf_printf(b, "<p><strong>%s</strong></p></article>", state_word(w, t, now_ms));
        return;
    }
    add_qr(b, page_of(r, t->out_trade_no));
    buf_printf(b,
               "<form method=\"post\" action=\"/phone/pay/" STR_FMT
               "\"><button>%s</button></form></article>",
               STR_ARG(str_percent(r->arena, t->out_trade_no)), w->pay);
}

static void begin(struct buf *b, const struct words *w)
{
    buf_printf(b,
               "<!doctype html><html lang=\"%s\"><meta charset=\"utf-8\">"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
               "<title>%s</title><style>%s</style><h1>%s</h1>",
               w->lang, w->title, style, w->title);
}

static void show_list(struct request *r)
{
    const struct words *w = words_for(r);
    struct books *books = &r->s->books;
    struct buf b;
    int shown = 0;
    buf_init_arena(&b, r->arena, 1 << 20);
    begin(&b, w);
    sandbox_lock(r->s);
    int64_t now_ms = env_now_ms(r->s->env);
    for (struct list *n = books->trades.prev; n != &books->trades && shown < SHOWN_MAX;
         n = n->prev) {
        struct trade *t = container_of(n, struct trade, node);
        books_age_trade(t, now_ms);
        if (t->state != TRADE_NOTPAY || now_ms >= t->expire_ms)
            continue;
        add_trade(r, &b, w, t, now_ms);
        shown++;
    }
    sandbox_unlock(r->s);
    if (!shown)
        buf_printf(&b, "<p>%s</p>", w->empty);
    sandbox_answer_set(r->answer, 200, "text/html; charset=utf-8", buf_str(&b));
}

static void show_one(struct request *r, struct str out_trade_no)
{
    const struct words *w = words_for(r);
    struct buf b;
    buf_init_arena(&b, r->arena, 1 << 20);
    begin(&b, w);
    sandbox_lock(r->s);
    struct trade *t = books_trade(&r->s->books, NULL, out_trade_no);
    if (t) {
        int64_t now_ms = env_now_ms(r->s->env);
        books_age_trade(t, now_ms);
        add_trade(r, &b, w, t, now_ms);
    }
    sandbox_unlock(r->s);
    if (!t) {
        buf_printf(&b, "<article><p><strong>%s</strong></p><p class=\"no\">", w->unknown);
        add_text(&b, str_sub(out_trade_no, 0, 64));
        buf_add_str(&b, STR("</p></article>"));
    }
    buf_printf(&b, "<p><a href=\"/phone/\">%s</a></p>", w->back);
    sandbox_answer_set(r->answer, t ? 200 : 404, "text/html; charset=utf-8", buf_str(&b));
}

/* Then back to the trade's page, which says what became of it: reloading that page pays nothing. */
static void pay(struct request *r, struct str out_trade_no)
{
    enum err e = sandbox_pay(r->s, out_trade_no, NULL);
    if (e == ERR_NOT_FOUND) {
        show_one(r, out_trade_no);
        return;
    }
    sandbox_answer_header(
        r->answer, "Location",
        str_printf(r->arena, "/phone/" STR_FMT, STR_ARG(str_percent(r->arena, out_trade_no))));
    sandbox_answer_set(r->answer, 303, NULL, STR_NONE);
}

void sandbox_phone_handle(struct request *r)
{
    const struct str paying = STR("/phone/pay/"), top = STR("/phone/");
    struct str path;
    if (str_unpercent(r->arena, r->path, false, &path)) {
        sandbox_answer_set(r->answer, 400, NULL, STR_NONE);
        return;
    }
    sandbox_answer_header(r->answer, "Cache-Control", STR("no-store"));
    if (str_eq(r->method, STR("POST")) && str_starts(path, paying))
        pay(r, str_sub(path, paying.n, path.n));
    else if (str_eq(r->method, STR("GET")) && path.n > top.n)
        show_one(r, str_sub(path, top.n, path.n));
    else if (str_eq(r->method, STR("GET")))
        show_list(r);
    else
        sandbox_answer_set(r->answer, 405, NULL, STR_NONE);
}
