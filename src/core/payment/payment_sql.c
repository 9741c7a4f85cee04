/* payment_sql.c -- the statements of payment_order and payment_due. */
#include "core/payment/payment_sql.h"

#include <inttypes.h>

/* Without the request bytes, which only the sender needs. */
#define COLUMNS                                                                                    \
    "id, slot, order_id, caller, account, environment, channel, method, user_id, payer, "          \
    "client_ip, amount, currency, status,"                                                         \
    " late, quarantined, superseded, settled, paid_amount, payer_amount, channel_discount, "       \
    "refunding, refunded,"                                                                         \
    " transaction_id, credentials, credential_expire, calls, unknown_calls, call_owner, "          \
    "call_until, close_requested,"                                                                 \
    " close_time, request_id, digest, expire_time, pay_time, next_query_time, query_count, "       \
    "evidence_kind, evidence_ref,"                                                                 \
    " trace_id, route, version, journal_id, journal_seq, journal_hash, create_time, update_time"

SQL(payment_insert, "INSERT INTO payment_order (id, slot, order_id, caller, account, environment, "
                    "channel, method, user_id, payer, client_ip,"
                    " amount, currency, status, live, late, quarantined, superseded, settled, "
                    "paid_amount, payer_amount, channel_discount,"
                    " refunding, refunded, transaction_id, grant_key, credentials, "
                    "credential_expire, request_endpoint, request_body, calls,"
                    " unknown_calls, call_owner, call_until, close_requested, close_time, "
                    "request_id, digest, expire_time, pay_time,"
                    " next_query_time, query_count, evidence_kind, evidence_ref, trace_id, route, "
                    "version, journal_id, journal_seq,"
                    " journal_hash, create_time, update_time)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
                    "0, NULL, NULL, NULL, 0, ?, ?, 0, 0, ?, ?, 0, 0,"
                    " ?, ?, ?, 0, ?, 0, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?)");

SQL(payment_by_id, "SELECT " COLUMNS " FROM payment_order WHERE id = ?");
SQL(payment_order_of, "SELECT order_id FROM payment_order WHERE id = ?");
SQL(payment_request, "SELECT request_endpoint, request_body FROM payment_order WHERE id = ?");
SQL(payment_of_order,
    "SELECT " COLUMNS " FROM payment_order WHERE order_id = ? ORDER BY id LIMIT ?");
SQL(payment_brief, "SELECT id, channel, status, settled, close_requested, superseded, quarantined "
                   "FROM payment_order"
                   " WHERE order_id = ? AND (status <= 2 OR quarantined = 1) ORDER BY id");
SQL(payment_by_request, "SELECT id FROM payment_order WHERE order_id = ? AND request_id = ?");
SQL(payment_live, "SELECT id FROM payment_order WHERE order_id = ? AND channel = ? AND live = 0");
SQL(payment_by_transaction,
    "SELECT id FROM payment_order WHERE account = ? AND transaction_id = ?");

SQL(payment_open_after,
    "SELECT d.due, d.id, p.account, p.status, p.next_query_time FROM payment_due d JOIN "
    "payment_order p ON p.id = d.id WHERE d.due >= ? AND (d.due > ? OR d.id > ?) ORDER BY d.due, "
    "d.id LIMIT ?");

#define EVIDENCE "evidence_kind = ?, evidence_ref = ?, "
#define HEAD                                                                                       \
    "version = version + 1, journal_id = ?, journal_seq = ?, journal_hash = ?, update_time = ?"
#define GUARD " WHERE id = ? AND version = ? AND status = ?"

SQL(payment_accepted, "UPDATE payment_order SET status = 1, " EVIDENCE HEAD GUARD);
SQL(payment_success, "UPDATE payment_order SET status = 2, late = ?, paid_amount = ?, payer_amount "
                     "= ?, channel_discount = ?, transaction_id = ?,"
                     " pay_time = ?, " EVIDENCE HEAD GUARD);
SQL(payment_ended, "UPDATE payment_order SET status = ?, live = ?, " EVIDENCE HEAD GUARD);

SQL(payment_quarantine,
    "UPDATE payment_order SET quarantined = 1, paid_amount = ?, payer_amount = ?, channel_discount "
    "= ?, " EVIDENCE "version = version + 1, update_time = ?" GUARD " AND quarantined = 0");
SQL(payment_close_requested, "UPDATE payment_order SET close_requested = ?, close_time = ?, "
                             "version = version + 1, update_time = ?" GUARD);
SQL(payment_settled,
    "UPDATE payment_order SET settled = ?, version = version + 1, update_time = ?" GUARD
    " AND settled = ?");
SQL(payment_aside,
    "UPDATE payment_order SET settled = 3, live = ?, version = version + 1, update_time = ?" GUARD
    " AND settled = ?");
SQL(payment_supersede, "UPDATE payment_order SET superseded = 1, live = ?, request_id = ?, "
                       "close_requested = ?, close_time = ?,"
                       " version = version + 1, update_time = ?" GUARD " AND superseded = 0");

SQL(payment_lease_take, "UPDATE payment_order SET call_owner = ?, call_until = ?, unknown_calls = "
                        "unknown_calls + ?, update_time = ?"
                        " WHERE id = ? AND call_owner = ? AND call_until = ?");
SQL(payment_lease_release, "UPDATE payment_order SET call_owner = 0, call_until = 0 WHERE id = ? "
                           "AND call_owner = ?");
SQL(payment_called, "UPDATE payment_order SET calls = calls + 1, unknown_calls = unknown_calls + "
                    "?, update_time = ? WHERE id = ?");
SQL(payment_credentials,
    "UPDATE payment_order SET credentials = ?, credential_expire = ? WHERE id = ?");

SQL(payment_schedule, "UPDATE payment_order SET next_query_time = ?, query_count = ? WHERE id = ?");
SQL(payment_due_insert, "INSERT INTO payment_due (due, id) VALUES (?, ?)");
SQL(payment_due_delete, "DELETE FROM payment_due WHERE due = ? AND id = ?");

#define DUE                                                                                        \
    "SELECT d.due, d.id, p.order_id, p.slot, p.status, p.settled, p.update_time FROM payment_due " \
    "d JOIN payment_order p ON p.id = d.id"
SQL(payment_due_newest, DUE " WHERE d.due <= ? ORDER BY d.due DESC, d.id DESC LIMIT ?");
SQL(payment_due_oldest, DUE " WHERE d.due <= ? ORDER BY d.due, d.id LIMIT ?");
SQL(payment_due_after,
    DUE " WHERE d.due >= ? AND (d.due > ? OR d.id > ?) ORDER BY d.due, d.id LIMIT ?");

/* For lists only: decisions read payment_brief, which is never cut off. */
#define ATTEMPTS_MAX 1000

static enum err one_row(struct query *q, struct err_info *info)
{
    int64_t changed;
    enum err e = query_run(q, &changed, info);
    if (!e && changed != 1)
        return err_set(info, ERR_RETRY, "the payment was changed by somebody else");
    return e;
}

static void bind_evidence(struct query *q, const struct evidence *evidence)
{
    query_int(q, (int64_t)evidence->kind);
    query_int(q, evidence->ref);
}

static void bind_head(struct query *q, const struct journal_head *head, int64_t now_ms)
{
    query_int(q, head->id);
    query_int(q, head->seq);
    query_blob(q, sha256_str(&head->hash));
    query_int(q, now_ms);
}

static void bind_guard(struct query *q, const struct payment *p)
{
    query_int(q, p->no.id);
    query_int(q, p->version);
    query_int(q, (int64_t)p->status);
}

enum err payment_sql_insert(struct tx *tx, const struct payment *p, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_insert);

    query_int(q, p->no.id);
    query_int(q, p->no.slot);
    query_int(q, p->order_no.id);
    query_int(q, p->caller);
    query_text(q, p->account);
    query_int(q, (int64_t)p->environment);
    query_int(q, (int64_t)p->channel);
    query_int(q, (int64_t)p->method);
    query_text(q, p->user_id);
    query_text(q, p->payer);
    query_text(q, p->client_ip);
    query_int(q, money_fen(p->amount));
    query_text(q, money_currency(&p->amount));
    query_int(q, (int64_t)p->status);
    query_text(q, p->request.endpoint);
    query_blob(q, p->request.body);
    query_int(q, p->call_owner);
    query_int(q, p->call_until_ms);
    query_text(q, p->request_id);
    query_blob(q, sha256_str(&p->digest));
    query_int(q, p->expire_ms);
    query_int(q, p->next_query_ms);
    query_text(q, p->trace_id);
    query_text(q, p->route);
    query_int(q, p->version);
    query_int(q, p->journal.id);
    query_int(q, p->journal.seq);
    query_blob(q, sha256_str(&p->journal.hash));
    query_int(q, p->create_ms);
    query_int(q, p->update_ms);
    return query_run(q, NULL, info);
}

static enum err read_payment(struct query *q, struct payment *ret, struct err_info *info)
{
    unsigned slot = (unsigned)col_int(q, 1);
    struct str currency = col_text(q, 12), digest = col_blob(q, 33), hash = col_blob(q, 45);
    struct payment p = {
        .no = number_make(NUMBER_PAYMENT, slot, col_int(q, 0)),
        .order_no = number_make(NUMBER_ORDER, slot, col_int(q, 2)),
        .caller = col_int(q, 3),
        .account = col_text(q, 4),
        .environment = (enum environment)col_int(q, 5),
        .channel = (enum channel_id)col_int(q, 6),
        .method = (enum pay_method)col_int(q, 7),
        .user_id = col_text(q, 8),
        .payer = col_text(q, 9),
        .client_ip = col_text(q, 10),
        .status = (enum payment_status)col_int(q, 13),
        .late = col_int(q, 14) != 0,
        .quarantined = col_int(q, 15) != 0,
        .superseded = col_int(q, 16) != 0,
        .settled = (enum payment_settled)col_int(q, 17),
        .transaction_id = col_text(q, 23),
        .credentials = col_blob(q, 24),
        .credential_expire_ms = col_int(q, 25),
        .calls = col_int(q, 26),
        .unknown_calls = col_int(q, 27),
        .call_owner = col_int(q, 28),
        .call_until_ms = col_int(q, 29),
        .close_requested = (enum payment_close)col_int(q, 30),
        .close_ms = col_int(q, 31),
        .request_id = col_text(q, 32),
        .expire_ms = col_int(q, 34),
        .pay_ms = col_int(q, 35),
        .next_query_ms = col_int(q, 36),
        .query_count = col_int(q, 37),
        .evidence_kind = (enum evidence_kind)col_int(q, 38),
        .evidence_ref = col_int(q, 39),
        .trace_id = col_text(q, 40),
        .route = col_text(q, 41),
        .version = col_int(q, 42),
        .journal = { .id = col_int(q, 43), .seq = col_int(q, 44) },
        .create_ms = col_int(q, 46),
        .update_ms = col_int(q, 47),
    };
    if (p.status > PAYMENT_CLOSED || digest.n != sizeof p.digest.b ||
        hash.n != sizeof p.journal.hash.b || money_of(col_int(q, 11), currency, &p.amount) ||
        money_of(col_int(q, 18), currency, &p.paid_amount) ||
        money_of(col_int(q, 19), currency, &p.payer_amount) ||
        money_of(col_int(q, 20), currency, &p.channel_discount) ||
        money_of(col_int(q, 21), currency, &p.refunding) ||
        money_of(col_int(q, 22), currency, &p.refunded))
        return err_internal(info, "payment row %" PRId64 " is damaged", p.no.id);
    memcpy(p.digest.b, digest.p, digest.n);
    memcpy(p.journal.hash.b, hash.p, hash.n);
    *ret = p;
    return ERR_OK;
}

enum err payment_sql_load(struct tx *tx, int64_t id, struct payment *ret, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_by_id);
    bool row;

    query_int(q, id);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return err_set(info, ERR_NOT_FOUND, "no payment %" PRId64, id);
    e = read_payment(q, ret, info);
    query_end(q);
    return e;
}

enum err payment_sql_load_request(struct tx *tx, struct payment *p, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_request);
    bool row;

    query_int(q, p->no.id);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return err_set(info, ERR_NOT_FOUND, "no payment %" PRId64, p->no.id);
    p->request.endpoint = col_text(q, 0);
    p->request.body = col_blob(q, 1);
    query_end(q);
    return ERR_OK;
}

enum err payment_sql_of_order(struct tx *tx, int64_t order_id, struct payment **ret, size_t *ret_n,
                              struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_of_order);
    struct payment *rows = NULL;
    size_t n = 0, room = 0;

    query_int(q, order_id);
    query_int(q, ATTEMPTS_MAX);
    for (;;) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        if (n == room) {
            struct payment *more = arena_array(tx_arena(tx), room ? 2 * room : 4, sizeof *more);
            if (n)
                memcpy(more, rows, n * sizeof *more);
            rows = more;
            room = room ? 2 * room : 4;
        }
        if ((e = read_payment(q, &rows[n], info))) {
            query_end(q);
            return e;
        }
        n++;
    }
    *ret = rows;
    *ret_n = n;
    return ERR_OK;
}

enum err payment_sql_brief(struct tx *tx, int64_t order_id, struct payment_brief **ret,
                           size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_brief);
    struct payment_brief *rows = NULL;
    size_t n = 0, room = 0;

    query_int(q, order_id);
    for (;;) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        if (n == room) {
            struct payment_brief *more =
                arena_array(tx_arena(tx), room ? 2 * room : 8, sizeof *more);
            if (n)
                memcpy(more, rows, n * sizeof *more);
            rows = more;
            room = room ? 2 * room : 8;
        }
        rows[n++] = (struct payment_brief) {
            .id = col_int(q, 0),
            .channel = (enum channel_id)col_int(q, 1),
            .status = (enum payment_status)col_int(q, 2),
            .settled = (enum payment_settled)col_int(q, 3),
            .close_requested = (enum payment_close)col_int(q, 4),
            .superseded = col_int(q, 5) != 0,
            .quarantined = col_int(q, 6) != 0,
        };
    }
    *ret = rows;
    *ret_n = n;
    return ERR_OK;
}

static enum err one_id(struct query *q, int64_t *ret_id, struct err_info *info)
{
    bool row;
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    *ret_id = row ? col_int(q, 0) : 0;
    if (row)
        query_end(q);
    return ERR_OK;
}

enum err payment_sql_order_id(struct tx *tx, int64_t id, int64_t *ret, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_order_of);

    query_int(q, id);
    enum err e = one_id(q, ret, info);
    if (!e && !*ret)
        return err_set(info, ERR_NOT_FOUND, "no payment %" PRId64, id);
    return e;
}

enum err payment_sql_by_request(struct tx *tx, int64_t order_id, struct str request_id,
                                int64_t *ret_id, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_by_request);

    query_int(q, order_id);
    query_text(q, request_id);
    return one_id(q, ret_id, info);
}

enum err payment_sql_live(struct tx *tx, int64_t order_id, enum channel_id channel, int64_t *ret_id,
                          struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_live);

    query_int(q, order_id);
    query_int(q, (int64_t)channel);
    return one_id(q, ret_id, info);
}

enum err payment_sql_by_transaction(struct tx *tx, struct str account, struct str transaction_id,
                                    int64_t *ret_id, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_by_transaction);

    query_text(q, account);
    query_text(q, transaction_id);
    return one_id(q, ret_id, info);
}

/* ---- the edges ---- */

static void moved(struct tx *tx, struct payment *p, const struct journal_head *head,
                  const struct evidence *evidence, enum payment_status to)
{
    p->status = to;
    p->version++;
    p->journal = *head;
    p->evidence_kind = evidence->kind;
    p->evidence_ref = evidence->ref;
    p->update_ms = tx_now_ms(tx);
}

enum err payment_sql_accepted(struct tx *tx, struct payment *p, const struct journal_head *head,
                              const struct evidence *evidence, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_accepted);

    bind_evidence(q, evidence);
    bind_head(q, head, tx_now_ms(tx));
    bind_guard(q, p);
    enum err e = one_row(q, info);
    if (!e)
        moved(tx, p, head, evidence, PAYMENT_PAYING);
    return e;
}

/* What the fact says of the money. Parts a channel does not state count as nothing. */
static void take_amounts(struct payment *p, const struct fact *fact)
{
    struct money zero = money_zero(p->amount);

    p->paid_amount = money_same_currency(fact->amount, p->amount) ? fact->amount : zero;
    p->payer_amount =
        money_same_currency(fact->payer_amount, p->amount) ? fact->payer_amount : zero;
    p->channel_discount =
        money_same_currency(fact->channel_discount, p->amount) ? fact->channel_discount : zero;
}

enum err payment_sql_success(struct tx *tx, struct payment *p, const struct journal_head *head,
                             const struct evidence *evidence, bool late, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_success);
    const struct fact *fact = evidence->fact;
    struct payment paid = *p;

    take_amounts(&paid, fact);
    paid.late = late;
    paid.transaction_id = fact->transaction_id.n ? fact->transaction_id : STR_NONE;
    paid.pay_ms = fact->time_ms ? fact->time_ms : tx_now_ms(tx);
    query_int(q, paid.late);
    query_int(q, money_fen(paid.paid_amount));
    query_int(q, money_fen(paid.payer_amount));
    query_int(q, money_fen(paid.channel_discount));
    query_text(q, paid.transaction_id);
    query_int(q, paid.pay_ms);
    bind_evidence(q, evidence);
    bind_head(q, head, tx_now_ms(tx));
    bind_guard(q, p);
    enum err e = one_row(q, info);
    if (e)
        return e;
    *p = paid;
    moved(tx, p, head, evidence, PAYMENT_SUCCESS);
    return ERR_OK;
}

enum err payment_sql_ended(struct tx *tx, struct payment *p, const struct journal_head *head,
                           const struct evidence *evidence, enum payment_status to,
                           struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_ended);

    query_int(q, (int64_t)to);
    query_int(q, p->no.id);
    bind_evidence(q, evidence);
    bind_head(q, head, tx_now_ms(tx));
    bind_guard(q, p);
    enum err e = one_row(q, info);
    if (!e)
        moved(tx, p, head, evidence, to);
    return e;
}

/* ---- no edge ---- */

static void changed(struct tx *tx, struct payment *p)
{
    p->version++;
    p->update_ms = tx_now_ms(tx);
}

enum err payment_sql_quarantine(struct tx *tx, struct payment *p, const struct evidence *evidence,
                                struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_quarantine);
    struct payment held = *p;

    take_amounts(&held, evidence->fact);
    query_int(q, money_fen(held.paid_amount));
    query_int(q, money_fen(held.payer_amount));
    query_int(q, money_fen(held.channel_discount));
    bind_evidence(q, evidence);
    query_int(q, tx_now_ms(tx));
    bind_guard(q, p);
    enum err e = one_row(q, info);
    if (e)
        return e;
    *p = held;
    p->quarantined = true;
    p->evidence_kind = evidence->kind;
    p->evidence_ref = evidence->ref;
    changed(tx, p);
    return ERR_OK;
}

enum err payment_sql_close_requested(struct tx *tx, struct payment *p, enum payment_close why,
                                     struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_close_requested);
    int64_t now = tx_now_ms(tx);

    query_int(q, (int64_t)why);
    query_int(q, now);
    query_int(q, now);
    bind_guard(q, p);
    enum err e = one_row(q, info);
    if (e)
        return e;
    p->close_requested = why;
    p->close_ms = now;
    changed(tx, p);
    return ERR_OK;
}

enum err payment_sql_settled(struct tx *tx, struct payment *p, enum payment_settled settled,
                             struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_settled);

    query_int(q, (int64_t)settled);
    query_int(q, tx_now_ms(tx));
    bind_guard(q, p);
    query_int(q, (int64_t)p->settled);
    enum err e = one_row(q, info);
    if (e)
        return e;
    p->settled = settled;
    changed(tx, p);
    return ERR_OK;
}

enum err payment_sql_aside(struct tx *tx, struct payment *p, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_aside);

    query_int(q, p->no.id);
    query_int(q, tx_now_ms(tx));
    bind_guard(q, p);
    query_int(q, (int64_t)p->settled);
    enum err e = one_row(q, info);
    if (e)
        return e;
    p->settled = SETTLED_ASIDE;
    changed(tx, p);
    return ERR_OK;
}

enum err payment_sql_supersede(struct tx *tx, struct payment *p, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_supersede);
    struct str own = number_str(tx_arena(tx), p->no);
    int64_t now = tx_now_ms(tx);

    query_int(q, p->no.id);
    query_text(q, own);
    query_int(q, CLOSE_SWITCH);
    query_int(q, now);
    query_int(q, now);
    bind_guard(q, p);
    enum err e = one_row(q, info);
    if (e)
        return e;
    p->superseded = true;
    p->request_id = own;
    p->close_requested = CLOSE_SWITCH;
    p->close_ms = now;
    changed(tx, p);
    return ERR_OK;
}

/* ---- the call lease ---- */

enum err payment_sql_lease_take(struct tx *tx, struct payment *p, int64_t owner, int64_t until_ms,
                                int64_t lost, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_lease_take);

    query_int(q, owner);
    query_int(q, until_ms);
    query_int(q, lost);
    query_int(q, tx_now_ms(tx));
    query_int(q, p->no.id);
    query_int(q, p->call_owner);
    query_int(q, p->call_until_ms);
    enum err e = one_row(q, info);
    if (e)
        return e;
    p->call_owner = owner;
    p->call_until_ms = until_ms;
    p->unknown_calls += lost;
    return ERR_OK;
}

enum err payment_sql_lease_release(struct tx *tx, struct payment *p, int64_t owner,
                                   struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_lease_release);
    int64_t n;

    query_int(q, p->no.id);
    query_int(q, owner);
    enum err e = query_run(q, &n, info);
    if (!e && n == 1)
        p->call_owner = p->call_until_ms = 0;
    return e;
}

enum err payment_sql_called(struct tx *tx, struct payment *p, int64_t unknown,
                            struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_called);

    query_int(q, unknown);
    query_int(q, tx_now_ms(tx));
    query_int(q, p->no.id);
    enum err e = one_row(q, info);
    if (e)
        return e;
    p->calls++;
    p->unknown_calls += unknown;
    return ERR_OK;
}

enum err payment_sql_credentials(struct tx *tx, struct payment *p, struct str credentials,
                                 int64_t expire_ms, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_credentials);

    query_blob(q, credentials);
    query_int(q, expire_ms);
    query_int(q, p->no.id);
    enum err e = one_row(q, info);
    if (e)
        return e;
    p->credentials = credentials;
    p->credential_expire_ms = expire_ms;
    return ERR_OK;
}

/* ---- the due table ---- */

enum err payment_sql_schedule(struct tx *tx, struct payment *p, int64_t next_ms,
                              int64_t query_count, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_schedule);

    query_int(q, next_ms);
    query_int(q, query_count);
    query_int(q, p->no.id);
    enum err e = one_row(q, info);
    if (e)
        return e;
    p->next_query_ms = next_ms;
    p->query_count = query_count;
    return payment_sql_due_insert(tx, next_ms, p->no.id, info);
}

enum err payment_sql_due_insert(struct tx *tx, int64_t due_ms, int64_t id, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_due_insert);

    query_int(q, due_ms);
    query_int(q, id);
    enum err e = query_run(q, NULL, info);
    return e == ERR_EXISTS ? ERR_OK : e;
}

enum err payment_sql_due_delete(struct tx *tx, int64_t due_ms, int64_t id, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_due_delete);

    query_int(q, due_ms);
    query_int(q, id);
    return query_run(q, NULL, info);
}

static enum err due_rows(struct query *q, int64_t older_than_ms, size_t max,
                         struct payment_due *ret, size_t *ret_n, struct err_info *info)
{
    size_t n = 0;

    for (;;) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        if (n < max)
            ret[n++] = (struct payment_due) {
                .due_ms = col_int(q, 0),
                .id = col_int(q, 1),
                .order_id = col_int(q, 2),
                .slot = (unsigned)col_int(q, 3),
                .unsettled = col_int(q, 4) == PAYMENT_SUCCESS && col_int(q, 5) == SETTLED_NO &&
                             col_int(q, 6) <= older_than_ms,
            };
    }
    *ret_n = n;
    return ERR_OK;
}

enum err payment_sql_due_page(struct tx *tx, int64_t until_ms, bool newest, size_t max,
                              struct payment_due *ret, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, newest ? &payment_due_newest : &payment_due_oldest);

    query_int(q, until_ms);
    query_int(q, (int64_t)max);
    return due_rows(q, until_ms, max, ret, ret_n, info);
}

enum err payment_sql_unsettled_page(struct tx *tx, const struct payment_due *after,
                                    int64_t older_than_ms, size_t max, struct payment_due *ret,
                                    size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_due_after);

    query_int(q, after->due_ms);
    query_int(q, after->due_ms);
    query_int(q, after->id);
    query_int(q, (int64_t)max);
    return due_rows(q, older_than_ms, max, ret, ret_n, info);
}

enum err payment_sql_open_page(struct tx *tx, const struct payment_open *after, size_t max,
                               struct payment_open *ret, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &payment_open_after);
    size_t n = 0;

    query_int(q, after->due_ms);
    query_int(q, after->due_ms);
    query_int(q, after->id);
    query_int(q, (int64_t)max);
    for (;;) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        if (n < max)
            ret[n++] = (struct payment_open) {
                .due_ms = col_int(q, 0),
                .id = col_int(q, 1),
                .account = col_text(q, 2),
                .open = col_int(q, 3) <= PAYMENT_PAYING && col_int(q, 4) == col_int(q, 0),
            };
    }
    *ret_n = n;
    return ERR_OK;
}
