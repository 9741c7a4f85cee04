/* order_brake_sql.c -- the statements of refund_brake: how much an account has paid back by itself
 * within an hour. */
#include "core/order/order_inner.h"

#define HOUR_MS    3600000
#define HOURS_KEPT 48

SQL(brake_add, "UPDATE refund_brake SET count = count + 1, fen = fen + ?, update_time = ? WHERE "
               "account = ? AND hour = ? AND (? = 0 OR count < ?) AND (? = 0 OR fen <= ?)");
SQL(brake_old, "DELETE FROM refund_brake WHERE account = ? AND hour < ?");
SQL(brake_first, "INSERT INTO refund_brake (account, hour, count, fen, create_time, update_time)"
                 " VALUES (?, ?, 1, ?, ?, ?)");

enum err order_brake(struct tx *tx, const struct centre_settings *settings, struct str account,
                     struct money amount, bool *ret_free, struct err_info *info)
{
    int64_t now = tx_now_ms(tx), fen = money_fen(amount), changed,
            most = settings->auto_refund_max_count, most_fen = settings->auto_refund_max_fen;
    struct bind who = bind_text(account), hour = bind_int(now / HOUR_MS);
    enum err e = tx_exec(tx, &brake_add,
                         BINDS(bind_int(fen), bind_int(now), who, hour, bind_int(most),
                               bind_int(most), bind_int(most_fen), bind_int(most_fen - fen)),
                         &changed, info);

    if (e)
        return e;
    *ret_free = changed == 1;
    if (*ret_free || (most_fen && fen > most_fen))
        return ERR_OK;
    if ((e = tx_exec(tx, &brake_old, BINDS(who, bind_int(now / HOUR_MS - HOURS_KEPT)), NULL, info)))
        return e;
    e = tx_exec(tx, &brake_first, BINDS(who, hour, bind_int(fen), bind_int(now), bind_int(now)),
                NULL, info);
    *ret_free = !e;
    return e == ERR_EXISTS ? ERR_OK : e;
}
