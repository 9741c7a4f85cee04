/* incident.c -- opening an incident, or counting that it happened once more.
 *
 * One row per (kind, subject, discriminator) and one event, however often the same thing is
 * reported. A report is known by its transaction's id, so one that runs twice counts once. */
#include "core/incident/incident.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "bus/event.h"
#include "core/incident/incident_sql.h"

#include <assert.h>

static_assert(INCIDENT_PAID_AFTER_CLOSE == 1 && INCIDENT_PAID_TWICE == 2 &&
                  INCIDENT_AMOUNT_MISMATCH == 3 && INCIDENT_ACCOUNT_MISMATCH == 4 &&
                  INCIDENT_TRANSACTION_CLASH == 5 && INCIDENT_STATUS_CONFLICT == 6 &&
                  INCIDENT_ORPHAN_PAYMENT == 7 && INCIDENT_QUERY_STUCK == 8 &&
                  INCIDENT_CALLBACK_STUCK == 9 && INCIDENT_DELIVERY_DEAD == 10 &&
                  INCIDENT_REFUND_HELD == 11 && INCIDENT_REFUND_ABNORMAL == 12 &&
                  INCIDENT_OVER_REFUNDED == 13 && INCIDENT_RISK_HELD == 14 &&
                  INCIDENT_KEY_EXPIRING == 15 && INCIDENT_LEDGER_IMBALANCE == 16,
              "incident_kind is persisted");
static_assert(POLICY_HOLD == 0 && POLICY_REFUND == 1 && POLICY_REVIVE == 2,
              "incident_policy is persisted");

#define DATA_MAX 4096

const char *incident_kind_name(enum incident_kind kind)
{
    switch (kind) {
    case INCIDENT_PAID_AFTER_CLOSE:
        return "PAID_AFTER_CLOSE";
    case INCIDENT_PAID_TWICE:
        return "PAID_TWICE";
    case INCIDENT_AMOUNT_MISMATCH:
        return "AMOUNT_MISMATCH";
    case INCIDENT_ACCOUNT_MISMATCH:
        return "ACCOUNT_MISMATCH";
    case INCIDENT_TRANSACTION_CLASH:
        return "TRANSACTION_CLASH";
    case INCIDENT_STATUS_CONFLICT:
        return "STATUS_CONFLICT";
    case INCIDENT_ORPHAN_PAYMENT:
        return "ORPHAN_PAYMENT";
    case INCIDENT_QUERY_STUCK:
        return "QUERY_STUCK";
    case INCIDENT_CALLBACK_STUCK:
        return "CALLBACK_STUCK";
    case INCIDENT_DELIVERY_DEAD:
        return "DELIVERY_DEAD";
    case INCIDENT_REFUND_HELD:
        return "REFUND_HELD";
    case INCIDENT_REFUND_ABNORMAL:
        return "REFUND_ABNORMAL";
    case INCIDENT_OVER_REFUNDED:
        return "OVER_REFUNDED";
    case INCIDENT_RISK_HELD:
        return "RISK_HELD";
    case INCIDENT_KEY_EXPIRING:
        return "KEY_EXPIRING";
    case INCIDENT_LEDGER_IMBALANCE:
        return "LEDGER_IMBALANCE";
    }
    return "UNKNOWN";
}

static enum err emit_opened(struct tx *tx, struct number no, const struct incident *incident,
                            struct err_info *info)
{
    struct arena *a = tx_arena(tx);
    struct buf b;
    struct json_out o;

    buf_init_arena(&b, a, DATA_MAX);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_str(&o, "incident_no", number_str(a, no));
    json_kv_str(&o, "kind", str_of(incident_kind_name(incident->kind)));
    json_kv_str(&o, "subject", number_str(a, incident->subject));
    if (incident->discriminator.n)
        json_kv_str(&o, "discriminator", incident->discriminator);
    json_kv_str(&o, "detail", incident->detail);
    json_kv_str(&o, "time", clock_rfc3339_ms(a, tx_now_ms(tx)));
    json_end_object(&o);
    if (!buf_ok(&b))
        return err_internal(info, "the data of incident.opened are too long");

    struct event event = {
        .type = EVENT_INCIDENT_OPENED,
        .subject = no,
        .sequence = 1,
        .caller = incident->caller,
        .data = buf_str(&b),
        .trace_id = incident->trace_id,
    };
    return outbox_emit(tx, &event, info);
}

enum err incident_open(struct tx *tx, const struct incident *incident, bool *ret_opened,
                       struct err_info *info)
{
    int64_t id = tx_new_id(tx);
    if (id == 0)
        return err_internal(info, "the transaction is out of ids for an incident");

    struct incident in = *incident;
    if (!in.discriminator.p)
        in.discriminator = STR("");
    struct number no = number_make(NUMBER_INCIDENT, in.subject.slot, id);

    enum err e = incident_sql_insert(tx, no, &in, info);
    if (!e) {
        if ((e = emit_opened(tx, no, &in, info)))
            return e;
        if (ret_opened)
            *ret_opened = true;
        return ERR_OK;
    }
    if (e != ERR_EXISTS)
        return e;

    int64_t existing;
    if ((e = incident_sql_id(tx, &in, &existing, info)))
        return e;
    if (existing != id && (e = incident_sql_count(tx, existing, id, info)))
        return e;
    if (ret_opened)
        *ret_opened = existing == id;
    return ERR_OK;
}

enum err incident_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    return incident_sql_has(tx, id, ret, info);
}

enum err incident_list(struct tx *tx, int64_t caller, int state, int64_t before, size_t limit,
                       struct incident_row *ret, size_t *ret_n, struct err_info *info)
{
    return incident_sql_list(tx, caller, state, before ? before : INT64_MAX, limit, ret, ret_n,
                             info);
}

enum err incidents_of(struct tx *tx, int64_t subject_id, struct incident_row *ret, size_t max,
                      size_t *ret_n, struct err_info *info)
{
    return incident_sql_of(tx, subject_id, ret, max, ret_n, info);
}
