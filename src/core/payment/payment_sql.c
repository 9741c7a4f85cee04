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

/* What every edge ends with, and what stands in for it where there is no edge. The values are those
 * of the row as it shall be, the guard's those of the row as it is. */
#define EVIDENCE "evidence_kind = ?, evidence_ref = ?, "
#define CHANGED  "version = version + 1, update_time = ?"
#define GUARD    " WHERE id = ? AND version = ? AND status = ?"
#define EDGE     EVIDENCE JOURNAL_HEAD_SET ", " CHANGED GUARD

#define EVIDENCE_BINDS(next) bind_int((next)->evidence_kind), bind_int((next)->evidence_ref)
#define CHANGED_BINDS(next, p)                                                                     \
    bind_int((next)->update_ms), bind_int((p)->no.id), bind_int((p)->version), bind_int((p)->status)
#define AMOUNT_BINDS(next)                                                                         \
    bind_int(money_fen((next)->paid_amount)), bind_int(money_fen((next)->payer_amount)),           \
        bind_int(money_fen((next)->channel_discount))
#define EDGE_BINDS(next, p)                                                                        \
    EVIDENCE_BINDS(next), JOURNAL_HEAD_BINDS(&(next)->journal), CHANGED_BINDS(next, p)

SQL(payment_accepted, "UPDATE payment_order SET status = 1, " EDGE);
SQL(payment_success,
    "UPDATE payment_order SET status = 2, quarantined = 0, late = ?, paid_amount = ?, "
    "payer_amount = ?, channel_discount = ?, transaction_id = ?,"
    " pay_time = ?, " EDGE);
SQL(payment_ended, "UPDATE payment_order SET status = ?, live = ?, " EDGE);

SQL(payment_quarantine,
    "UPDATE payment_order SET quarantined = 1, paid_amount = ?, payer_amount = ?, channel_discount "
    "= ?, transaction_id = ?, pay_time = ?, " EVIDENCE CHANGED GUARD " AND quarantined = 0");
SQL(payment_unhold,
    "UPDATE payment_order SET quarantined = 0, paid_amount = 0, payer_amount = 0, channel_discount "
    "= 0, transaction_id = NULL, pay_time = 0, " CHANGED GUARD " AND quarantined = 1");
SQL(payment_close_requested,
    "UPDATE payment_order SET close_requested = ?, close_time = ?, " CHANGED GUARD);
SQL(payment_settled, "UPDATE payment_order SET settled = ?, " CHANGED GUARD " AND settled = ?");
SQL(payment_aside,
    "UPDATE payment_order SET settled = 3, live = ?, " CHANGED GUARD " AND settled = ?");
SQL(payment_supersede, "UPDATE payment_order SET superseded = 1, live = ?, request_id = ?, "
                       "close_requested = ?, close_time = ?, " CHANGED GUARD " AND superseded = 0");

SQL(payment_reserve, "UPDATE payment_order SET refunding = refunding + ?, " CHANGED GUARD
                     " AND quarantined = 0 AND refunding + refunded + ? <= paid_amount");
SQL(payment_sums, "UPDATE payment_order SET refunding = ?, refunded = ?, " CHANGED GUARD);

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
DUE_TABLE(payment_due);

#define DUE                                                                                        \
    "SELECT d.due, d.id, p.order_id, p.slot, p.status, p.settled, p.update_time, p.account, "      \
    "p.quarantined, p.close_requested FROM payment_due d JOIN payment_order p ON p.id = d.id"
SQL(payment_due_newest, DUE " WHERE d.due <= ? ORDER BY d.due DESC, d.id DESC LIMIT ?");
SQL(payment_due_oldest, DUE " WHERE d.due <= ? ORDER BY d.due, d.id LIMIT ?");
/* As a pair: "due > ? OR id > ?" would begin anew at the first row of that due for every page. */
SQL(payment_due_after, DUE " WHERE (d.due, d.id) > (?, ?) ORDER BY d.due, d.id LIMIT ?");

/* For lists only: decisions read payment_brief, which is never cut off. */
#define ATTEMPTS_MAX 1000

enum err payment_sql_insert(struct tx *tx, const struct payment *p, struct err_info *info)
{
    return tx_exec(
        tx, &payment_insert,
        BINDS(bind_int(p->no.id), bind_int(p->no.slot), bind_int(p->order_no.id),
              bind_int(p->caller), bind_text(p->account), bind_int(p->environment),
              bind_int(p->channel), bind_int(p->method), bind_text(p->user_id), bind_text(p->payer),
              bind_text(p->client_ip), bind_int(money_fen(p->amount)),
              bind_text(money_currency(&p->amount)), bind_int(p->status),
              bind_text(p->request.endpoint), bind_blob(p->request.body), bind_int(p->call_owner),
              bind_int(p->call_until_ms), bind_text(p->request_id),
              bind_blob(sha256_str(&p->digest)), bind_int(p->expire_ms), bind_int(p->next_query_ms),
              bind_text(p->trace_id), bind_text(p->route), bind_int(p->version),
              JOURNAL_HEAD_BINDS(&p->journal), bind_int(p->create_ms), bind_int(p->update_ms)),
        NULL, info);
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
    struct query *q = tx_select(tx, &payment_by_id, BINDS(bind_int(id)));

    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no payment %" PRId64, id);
    enum err e = read_payment(q, ret, info);
    query_end(q, NULL);
    return e;
}

enum err payment_sql_load_request(struct tx *tx, struct payment *p, struct err_info *info)
{
    struct query *q = tx_select(tx, &payment_request, BINDS(bind_int(p->no.id)));

    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no payment %" PRId64, p->no.id);
    p->request.endpoint = col_text(q, 0);
    p->request.body = col_blob(q, 1);
    return query_end(q, info);
}

/* The rows with room for one more, which they lack at 0, 4, 8, 16, … of them. */
static void *roomy(struct tx *tx, void *rows, size_t n, size_t size)
{
    if (n % 4 || (n & (n - 1)))
        return rows;
    void *more = arena_array(tx_arena(tx), n ? 2 * n : 4, size);
    if (n)
        memcpy(more, rows, n * size);
    return more;
}

enum err payment_sql_of_order(struct tx *tx, int64_t order_id, struct payment **ret, size_t *ret_n,
                              struct err_info *info)
{
    struct query *q =
        tx_select(tx, &payment_of_order, BINDS(bind_int(order_id), bind_int(ATTEMPTS_MAX)));
    struct payment *rows = NULL;
    size_t n = 0;
    enum err e = ERR_OK;

    for (; !e && query_row(q); n++) {
        rows = roomy(tx, rows, n, sizeof *rows);
        e = read_payment(q, &rows[n], info);
    }
    enum err end = query_end(q, info);
    if (e || end)
        return e ? e : end;
    *ret = rows;
    *ret_n = n;
    return ERR_OK;
}

enum err payment_sql_brief(struct tx *tx, int64_t order_id, struct payment_brief **ret,
                           size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_select(tx, &payment_brief, BINDS(bind_int(order_id)));
    struct payment_brief *rows = NULL;
    size_t n = 0;

    while (query_row(q)) {
        rows = roomy(tx, rows, n, sizeof *rows);
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
    enum err e = query_end_n(q, n, ret_n, info);
    if (!e)
        *ret = rows;
    return e;
}

enum err payment_sql_order_id(struct tx *tx, int64_t id, int64_t *ret, struct err_info *info)
{
    enum err e = tx_select_int(tx, &payment_order_of, BINDS(bind_int(id)), ret, info);
    if (!e && !*ret)
        return err_set(info, ERR_NOT_FOUND, "no payment %" PRId64, id);
    return e;
}

enum err payment_sql_by_request(struct tx *tx, int64_t order_id, struct str request_id,
                                int64_t *ret_id, struct err_info *info)
{
    return tx_select_int(tx, &payment_by_request, BINDS(bind_int(order_id), bind_text(request_id)),
                         ret_id, info);
}

enum err payment_sql_live(struct tx *tx, int64_t order_id, enum channel_id channel, int64_t *ret_id,
                          struct err_info *info)
{
    return tx_select_int(tx, &payment_live, BINDS(bind_int(order_id), bind_int(channel)), ret_id,
                         info);
}

enum err payment_sql_by_transaction(struct tx *tx, struct str account, struct str transaction_id,
                                    int64_t *ret_id, struct err_info *info)
{
    return tx_select_int(tx, &payment_by_transaction,
                         BINDS(bind_text(account), bind_text(transaction_id)), ret_id, info);
}

/* ---- the edges ---- */

/* The statement that makes `next` of *p. */
static enum err update(struct tx *tx, struct payment *p, const struct payment *next,
                       const struct sql *sql, struct binds binds, struct err_info *info)
{
    enum err e = tx_exec_one(tx, sql, binds, "the payment was changed by somebody else", info);
    if (!e)
        *p = *next;
    return e;
}

static struct payment changed(struct tx *tx, const struct payment *p)
{
    struct payment next = *p;

    next.version++;
    next.update_ms = tx_now_ms(tx);
    return next;
}

static void set_evidence(struct payment *next, const struct evidence *evidence)
{
    next->evidence_kind = evidence->kind;
    next->evidence_ref = evidence->ref;
}

static struct payment moved(struct tx *tx, const struct payment *p, const struct journal_head *head,
                            const struct evidence *evidence, enum payment_status to)
{
    struct payment next = changed(tx, p);

    next.status = to;
    next.journal = *head;
    set_evidence(&next, evidence);
    return next;
}

enum err payment_sql_accepted(struct tx *tx, struct payment *p, const struct journal_head *head,
                              const struct evidence *evidence, struct err_info *info)
{
    struct payment next = moved(tx, p, head, evidence, PAYMENT_PAYING);

    return update(tx, p, &next, &payment_accepted, BINDS(EDGE_BINDS(&next, p)), info);
}

/* What the fact says of the money. Parts a channel does not state count as nothing. */
static void take_paid(struct payment *p, const struct fact *fact)
{
    struct money zero = money_zero(p->amount);

    p->transaction_id = fact->transaction_id.n ? fact->transaction_id : STR_NONE;
    p->pay_ms = fact->time_ms ? fact->time_ms : p->update_ms;

    p->paid_amount = money_same_currency(fact->amount, p->amount) ? fact->amount : zero;
    p->payer_amount =
        money_same_currency(fact->payer_amount, p->amount) ? fact->payer_amount : zero;
    p->channel_discount =
        money_same_currency(fact->channel_discount, p->amount) ? fact->channel_discount : zero;
}

enum err payment_sql_success(struct tx *tx, struct payment *p, const struct journal_head *head,
                             const struct evidence *evidence, bool late, struct err_info *info)
{
    struct payment next = moved(tx, p, head, evidence, PAYMENT_SUCCESS);

    take_paid(&next, evidence->fact);
    next.late = late;
    next.quarantined = false;
    return update(tx, p, &next, &payment_success,
                  BINDS(bind_int(next.late), AMOUNT_BINDS(&next), bind_text(next.transaction_id),
                        bind_int(next.pay_ms), EDGE_BINDS(&next, p)),
                  info);
}

enum err payment_sql_ended(struct tx *tx, struct payment *p, const struct journal_head *head,
                           const struct evidence *evidence, enum payment_status to,
                           struct err_info *info)
{
    struct payment next = moved(tx, p, head, evidence, to);

    return update(tx, p, &next, &payment_ended,
                  BINDS(bind_int(to), bind_int(p->no.id), EDGE_BINDS(&next, p)), info);
}

/* ---- no edge ---- */

static enum err write_quarantine(struct tx *tx, struct payment *p, struct payment *next,
                                 struct err_info *info)
{
    return update(tx, p, next, &payment_quarantine,
                  BINDS(AMOUNT_BINDS(next), bind_text(next->transaction_id), bind_int(next->pay_ms),
                        EVIDENCE_BINDS(next), CHANGED_BINDS(next, p)),
                  info);
}

enum err payment_sql_quarantine(struct tx *tx, struct payment *p, const struct evidence *evidence,
                                struct err_info *info)
{
    struct payment next = changed(tx, p);

    take_paid(&next, evidence->fact);
    set_evidence(&next, evidence);
    next.quarantined = true;
    enum err e = write_quarantine(tx, p, &next, info);
    if (e != ERR_EXISTS)
        return e;
    next.transaction_id = STR_NONE; /* another payment has it */
    return write_quarantine(tx, p, &next, info);
}

enum err payment_sql_release(struct tx *tx, struct payment *p, struct err_info *info)
{
    struct payment next = changed(tx, p);

    next.quarantined = false;
    next.paid_amount = next.payer_amount = next.channel_discount = money_zero(p->amount);
    next.transaction_id = STR_NONE;
    next.pay_ms = 0;
    return update(tx, p, &next, &payment_unhold, BINDS(CHANGED_BINDS(&next, p)), info);
}

enum err payment_sql_close_requested(struct tx *tx, struct payment *p, enum payment_close why,
                                     struct err_info *info)
{
    struct payment next = changed(tx, p);

    next.close_requested = why;
    next.close_ms = tx_now_ms(tx);
    return update(tx, p, &next, &payment_close_requested,
                  BINDS(bind_int(why), bind_int(next.close_ms), CHANGED_BINDS(&next, p)), info);
}

enum err payment_sql_settled(struct tx *tx, struct payment *p, enum payment_settled settled,
                             struct err_info *info)
{
    struct payment next = changed(tx, p);

    next.settled = settled;
    return update(tx, p, &next, &payment_settled,
                  BINDS(bind_int(settled), CHANGED_BINDS(&next, p), bind_int(p->settled)), info);
}

enum err payment_sql_aside(struct tx *tx, struct payment *p, struct err_info *info)
{
    struct payment next = changed(tx, p);

    next.settled = SETTLED_ASIDE;
    return update(tx, p, &next, &payment_aside,
                  BINDS(bind_int(p->no.id), CHANGED_BINDS(&next, p), bind_int(p->settled)), info);
}

enum err payment_sql_supersede(struct tx *tx, struct payment *p, struct err_info *info)
{
    struct payment next = changed(tx, p);

    next.superseded = true;
    next.request_id = number_str(tx_arena(tx), p->no);
    next.close_requested = CLOSE_SWITCH;
    next.close_ms = tx_now_ms(tx);
    return update(tx, p, &next, &payment_supersede,
                  BINDS(bind_int(p->no.id), bind_text(next.request_id), bind_int(CLOSE_SWITCH),
                        bind_int(next.close_ms), CHANGED_BINDS(&next, p)),
                  info);
}

enum err payment_sql_refund_reserve(struct tx *tx, struct payment *p, struct money amount,
                                    struct money refunding, struct err_info *info)
{
    struct payment next = changed(tx, p);

    next.refunding = refunding;
    return update(
        tx, p, &next, &payment_reserve,
        BINDS(bind_int(money_fen(amount)), CHANGED_BINDS(&next, p), bind_int(money_fen(amount))),
        info);
}

enum err payment_sql_refund_sums(struct tx *tx, struct payment *p, struct money refunding,
                                 struct money refunded, struct err_info *info)
{
    struct payment next = changed(tx, p);

    next.refunding = refunding;
    next.refunded = refunded;
    return update(tx, p, &next, &payment_sums,
                  BINDS(bind_int(money_fen(refunding)), bind_int(money_fen(refunded)),
                        CHANGED_BINDS(&next, p)),
                  info);
}

/* ---- the call lease ---- */

enum err payment_sql_lease_take(struct tx *tx, struct payment *p, int64_t owner, int64_t until_ms,
                                int64_t lost, struct err_info *info)
{
    struct payment next = *p;

    next.call_owner = owner;
    next.call_until_ms = until_ms;
    next.unknown_calls += lost;
    return update(tx, p, &next, &payment_lease_take,
                  BINDS(bind_int(owner), bind_int(until_ms), bind_int(lost),
                        bind_int(tx_now_ms(tx)), bind_int(p->no.id), bind_int(p->call_owner),
                        bind_int(p->call_until_ms)),
                  info);
}

enum err payment_sql_lease_release(struct tx *tx, struct payment *p, int64_t owner,
                                   struct err_info *info)
{
    int64_t n;
    enum err e =
        tx_exec(tx, &payment_lease_release, BINDS(bind_int(p->no.id), bind_int(owner)), &n, info);
    if (!e && n == 1)
        p->call_owner = p->call_until_ms = 0;
    return e;
}

enum err payment_sql_called(struct tx *tx, struct payment *p, int64_t unknown,
                            struct err_info *info)
{
    struct payment next = *p;

    next.calls++;
    next.unknown_calls += unknown;
    return update(tx, p, &next, &payment_called,
                  BINDS(bind_int(unknown), bind_int(tx_now_ms(tx)), bind_int(p->no.id)), info);
}

enum err payment_sql_credentials(struct tx *tx, struct payment *p, struct str credentials,
                                 int64_t expire_ms, struct err_info *info)
{
    struct payment next = *p;

    next.credentials = credentials;
    next.credential_expire_ms = expire_ms;
    return update(tx, p, &next, &payment_credentials,
                  BINDS(bind_blob(credentials), bind_int(expire_ms), bind_int(p->no.id)), info);
}

/* ---- the due table ---- */

enum err payment_sql_schedule(struct tx *tx, struct payment *p, int64_t next_ms,
                              int64_t query_count, struct err_info *info)
{
    struct payment next = *p;

    next.next_query_ms = next_ms;
    next.query_count = query_count;
    enum err e = update(tx, p, &next, &payment_schedule,
                        BINDS(bind_int(next_ms), bind_int(query_count), bind_int(p->no.id)), info);
    return e ? e : due_insert(tx, &payment_due, next_ms, p->no.id, info);
}

static struct payment_due read_due(struct query *q, int64_t older_than_ms)
{
    struct payment p = {
        .status = (enum payment_status)col_int(q, 4),
        .settled = (enum payment_settled)col_int(q, 5),
        .update_ms = col_int(q, 6),
        .quarantined = col_int(q, 8) != 0,
        .close_requested = (enum payment_close)col_int(q, 9),
    };
    return (struct payment_due) {
        .due_ms = col_int(q, 0),
        .id = col_int(q, 1),
        .order_id = col_int(q, 2),
        .slot = (unsigned)col_int(q, 3),
        .account = col_text(q, 7),
        .unsettled =
            p.status == PAYMENT_SUCCESS && p.settled == SETTLED_NO && p.update_ms <= older_than_ms,
        .needs_account = payment_needs_account(&p),
    };
}

static enum err due_rows(struct query *q, int64_t older_than_ms, size_t max,
                         struct payment_due *ret, size_t *ret_n, struct err_info *info)
{
    size_t n = 0;

    while (n < max && query_row(q))
        ret[n++] = read_due(q, older_than_ms);
    return query_end_n(q, n, ret_n, info);
}

enum err payment_sql_due_page(struct tx *tx, int64_t until_ms, bool newest, size_t max,
                              struct payment_due *ret, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_select(tx, newest ? &payment_due_newest : &payment_due_oldest,
                                BINDS(bind_int(until_ms), bind_int((int64_t)max)));

    return due_rows(q, until_ms, max, ret, ret_n, info);
}

enum err payment_sql_due_after(struct tx *tx, const struct payment_due *after,
                               int64_t older_than_ms, size_t max, struct payment_due *ret,
                               size_t *ret_n, struct err_info *info)
{
    struct query *q =
        tx_select(tx, &payment_due_after,
                  BINDS(bind_int(after->due_ms), bind_int(after->id), bind_int((int64_t)max)));

    return due_rows(q, older_than_ms, max, ret, ret_n, info);
}
