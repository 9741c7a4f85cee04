/* journal.c -- the chain of moves: each row carries the hash of the row before, the aggregate's row
 * carries the head.
 *
 * The chain shows edits made by somebody who does not also recompute it; a digest keyed outside the
 * database, taken daily over all heads, is what shows the others. Texts are cut to their columns
 * before hashing, so that what is read back is exactly what was hashed. */
#include "core/journal/journal.h"

#include "core/journal/journal_sql.h"

#include <assert.h>
#include <inttypes.h>

static_assert(CAUSE_CREATED == 1 && CAUSE_CALLBACK == 2 && CAUSE_PREPAY == 3 && CAUSE_QUERY == 4 &&
                  CAUSE_CLOSE == 5 && CAUSE_SETTLE == 6 && CAUSE_ATTEMPT == 7 &&
                  CAUSE_CANCEL == 8 && CAUSE_EXPIRY == 9 && CAUSE_COMPLETE == 10 &&
                  CAUSE_OPERATOR == 11 && CAUSE_FAILOVER == 12 && CAUSE_REFUND == 13,
              "journal_cause is persisted");
static_assert(EVIDENCE_NONE == 0 && EVIDENCE_CALLBACK == 1 && EVIDENCE_ANSWER == 2 &&
                  EVIDENCE_QUERY == 3 && EVIDENCE_REFUSAL == 4 && EVIDENCE_NOT_EXIST == 5 &&
                  EVIDENCE_BILL == 6 && EVIDENCE_OPERATOR == 7 && EVIDENCE_EXPIRY == 8,
              "evidence_kind is persisted");

#define ACTOR_MAX 64
#define TRACE_MAX 64
#define NOTE_MAX  256

/* At most `max` bytes, not ending inside a character. */
static struct str cut(struct str s, size_t max)
{
    if (s.n <= max)
        return s;
    while (max > 0 && ((unsigned char)s.p[max] & 0xc0) == 0x80)
        max--;
    return (struct str) { s.p, max };
}

static void add_int(struct buf *b, int64_t v)
{
    buf_add_int(b, v);
    buf_add_char(b, 0x1f);
}

static void add_str(struct buf *b, struct str s)
{
    buf_add_str(b, s);
    buf_add_char(b, 0x1f);
}

struct sha256 journal_hash(const struct journal_row *row)
{
    static const char digits[] = "0123456789abcdef";
    struct number_text subject = number_text(row->subject);
    char hex[2 * sizeof row->prev_hash.b];
    BUF_AUTO b;

    for (size_t i = 0; i < sizeof row->prev_hash.b; i++) {
        hex[2 * i] = digits[row->prev_hash.b[i] >> 4];
        hex[2 * i + 1] = digits[row->prev_hash.b[i] & 15];
    }
    buf_init(&b, 4096);
    add_int(&b, row->id);
    add_str(&b, str_of(subject.s));
    add_int(&b, row->seq);
    add_int(&b, row->from);
    add_int(&b, row->to);
    add_int(&b, (int64_t)row->cause);
    add_int(&b, (int64_t)row->evidence_kind);
    add_int(&b, row->evidence_ref);
    add_str(&b, row->actor);
    add_str(&b, row->trace_id);
    add_str(&b, row->note);
    add_int(&b, row->prev_id);
    add_str(&b, (struct str) { hex, sizeof hex });
    add_int(&b, row->time_ms);
    assert(buf_ok(&b));
    return sha256(buf_str(&b));
}

enum err journal_next(struct tx *tx, struct number subject, const struct journal_head *head,
                      int from, int to, enum journal_cause cause, const struct evidence *evidence,
                      struct str trace_id, struct str note, struct journal_row *ret,
                      struct journal_head *ret_head, struct err_info *info)
{
    int64_t id = tx_new_id(tx);
    if (id == 0)
        return err_internal(info, "the transaction is out of ids for the journal");
    *ret = (struct journal_row) {
        .id = id,
        .subject = subject,
        .seq = head->seq + 1,
        .from = from,
        .to = to,
        .cause = cause,
        .evidence_kind = evidence->kind,
        .evidence_ref = evidence->ref,
        .actor = cut(evidence->actor, ACTOR_MAX),
        .trace_id = cut(trace_id, TRACE_MAX),
        .note = cut(note, NOTE_MAX),
        .prev_id = head->id,
        .prev_hash = head->hash,
        .time_ms = tx_now_ms(tx),
    };
    *ret_head = (struct journal_head) { .id = id, .seq = ret->seq, .hash = journal_hash(ret) };
    return ERR_OK;
}

enum err journal_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    return journal_sql_has(tx, id, ret, info);
}

enum err journal_insert(struct tx *tx, const struct journal_row *row, struct err_info *info)
{
    return journal_sql_insert(tx, row, info);
}

enum err journal_read(struct tx *tx, const struct journal_head *head, struct journal_row **ret_rows,
                      size_t *ret_n, struct err_info *info)
{
    if (head->seq < 0 || head->seq > JOURNAL_ROWS_MAX)
        return err_set(info, ERR_CONFLICT, "the journal head claims %" PRId64 " rows", head->seq);

    size_t n = (size_t)head->seq;
    struct journal_row *rows = arena_array(tx_arena(tx), n ? n : 1, sizeof *rows);
    int64_t id = head->id;
    struct sha256 expected = head->hash;
    for (size_t i = n; i-- > 0;) {
        enum err e = journal_sql_load(tx, id, &rows[i], info);
        if (e == ERR_NOT_FOUND)
            return err_set(info, ERR_CONFLICT,
                           "journal row %" PRId64 " (number %zu of its chain) is missing", id,
                           i + 1);
        if (e)
            return e;
        struct sha256 hash = journal_hash(&rows[i]);
        if (memcmp(hash.b, expected.b, sizeof hash.b) != 0 || rows[i].seq != (int64_t)i + 1)
            return err_set(info, ERR_CONFLICT,
                           "journal row %" PRId64
                           " (number %zu of its chain) does not fit its hash",
                           id, i + 1);
        expected = rows[i].prev_hash;
        id = rows[i].prev_id;
    }
    if (id != 0)
        return err_set(info, ERR_CONFLICT, "the journal's first row points to %" PRId64, id);
    *ret_rows = rows;
    *ret_n = n;
    return ERR_OK;
}

const char *journal_cause_name(enum journal_cause cause)
{
    switch (cause) {
    case CAUSE_CREATED:
        return "created";
    case CAUSE_CALLBACK:
        return "callback";
    case CAUSE_PREPAY:
        return "prepay";
    case CAUSE_QUERY:
        return "query";
    case CAUSE_CLOSE:
        return "close";
    case CAUSE_SETTLE:
        return "settle";
    case CAUSE_ATTEMPT:
        return "attempt";
    case CAUSE_CANCEL:
        return "cancel";
    case CAUSE_EXPIRY:
        return "expiry";
    case CAUSE_COMPLETE:
        return "complete";
    case CAUSE_OPERATOR:
        return "operator";
    case CAUSE_FAILOVER:
        return "failover";
    case CAUSE_REFUND:
        return "refund";
    }
    return "unknown";
}

const char *evidence_kind_name(enum evidence_kind kind)
{
    switch (kind) {
    case EVIDENCE_NONE:
        return "none";
    case EVIDENCE_CALLBACK:
        return "callback";
    case EVIDENCE_ANSWER:
        return "answer";
    case EVIDENCE_QUERY:
        return "query";
    case EVIDENCE_REFUSAL:
        return "refusal";
    case EVIDENCE_NOT_EXIST:
        return "not_exist";
    case EVIDENCE_BILL:
        return "bill";
    case EVIDENCE_OPERATOR:
        return "operator";
    case EVIDENCE_EXPIRY:
        return "expiry";
    }
    return "unknown";
}
