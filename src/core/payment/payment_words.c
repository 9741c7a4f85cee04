/* payment_words.c -- what is said of payments: names, and the table as text. */
#include "core/payment/payment.h"

#include "base/buf.h"

static const char *const status_names[] = {
    [PAYMENT_INIT] = "INIT",     [PAYMENT_PAYING] = "PAYING", [PAYMENT_SUCCESS] = "SUCCESS",
    [PAYMENT_FAILED] = "FAILED", [PAYMENT_CLOSED] = "CLOSED",
};

const char *payment_status_name(enum payment_status s)
{
    return (size_t)s < sizeof status_names / sizeof status_names[0] ? status_names[s] : "UNKNOWN";
}

const char *payment_close_name(enum payment_close c)
{
    switch (c) {
    case CLOSE_NO:
        return "no";
    case CLOSE_CALLER:
        return "caller";
    case CLOSE_CANCEL:
        return "cancel";
    case CLOSE_EXPIRY:
        return "expiry";
    case CLOSE_PAID_ELSEWHERE:
        return "paid elsewhere";
    case CLOSE_SWITCH:
        return "switched";
    case CLOSE_TERMINAL:
        return "ended already";
    }
    return "unknown";
}

const char *fact_kind_name(enum fact_kind fact)
{
    switch (fact) {
    case FACT_NOTHING:
        return "NOTHING";
    case FACT_ACCEPTED:
        return "ACCEPTED";
    case FACT_REFUSED:
        return "REFUSED";
    case FACT_PAID:
        return "PAID";
    case FACT_PAY_FAILED:
        return "PAY_FAILED";
    case FACT_SHUT:
        return "SHUT";
    case FACT_REFUND_ACCEPTED:
        return "R_ACCEPTED";
    case FACT_REFUND_DONE:
        return "R_DONE";
    case FACT_REFUND_CLOSED:
        return "R_CLOSED";
    case FACT_REFUND_ABNORMAL:
        return "R_ABNORMAL";
    case FACT_REFUND_REVERSED:
        return "R_REVERSED";
    }
    return "UNKNOWN";
}

static void print_cell(struct buf *out, enum payment_row row, enum payment_status status)
{
    struct payment_cell cell = payment_cell_of(row, status);

    switch (cell.act) {
    case ACT_NONE:
        buf_add_str(out, row == ROW_PAID_EQUAL ? STR(" – ; other transaction: incident |")
                                               : STR(" – |"));
        return;
    case ACT_MOVE:
        buf_printf(out, " → %s%s |", status_names[cell.to],
                   cell.to == PAYMENT_SUCCESS && status > PAYMENT_SUCCESS ? ", late" : "");
        return;
    case ACT_CLOSE:
        buf_add_str(out, STR(" request close |"));
        return;
    case ACT_QUERY:
        buf_add_str(out, STR(" query |"));
        return;
    case ACT_QUARANTINE:
        buf_add_str(out, STR(" quarantine |"));
        return;
    case ACT_INCIDENT:
        buf_add_str(out, STR(" incident |"));
        return;
    }
}

void payment_matrix_print(struct buf *out)
{
    static const char *const rows[] = {
        [ROW_ACCEPTED] = "ACCEPTED",
        [ROW_REFUSED] = "REFUSED, no call ever unknown",
        [ROW_REFUSED_UNSURE] = "REFUSED, a call was unknown",
        [ROW_PAID_EQUAL] = "PAID, equal",
        [ROW_PAID_UNEQUAL] = "PAID, unequal",
        [ROW_PAY_FAILED] = "PAY_FAILED",
        [ROW_SHUT] = "SHUT",
    };

    buf_add_str(out, STR("| fact \\ status | INIT | PAYING | SUCCESS | FAILED | CLOSED "
                         "|\n|---|---|---|---|---|---|\n"));
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        buf_printf(out, "| %s |", rows[r]);
        for (size_t s = 0; s < sizeof status_names / sizeof status_names[0]; s++)
            print_cell(out, (enum payment_row)r, (enum payment_status)s);
        buf_add_char(out, '\n');
    }
}
