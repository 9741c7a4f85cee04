/* account_contract_sql.c -- the statements of account_contract. */
#include "core/account_contract/account_contract.h"

SQL(account_contract_all, "SELECT account, contract FROM account_contract ORDER BY account");
SQL(account_contract_is, "SELECT 1 FROM account_contract WHERE account = ? AND contract = ?");
SQL(account_contract_insert, "INSERT INTO account_contract (account, contract, create_time, "
                             "update_time) VALUES (?, ?, ?, ?)");
SQL(account_contract_delete, "DELETE FROM account_contract WHERE account = ? AND contract = ?");

enum err account_contracts_each(struct tx *tx, account_contract_seen *seen, void *ctx,
                                struct err_info *info)
{
    struct query *q = tx_select(tx, &account_contract_all, NO_BINDS);

    while (query_row(q))
        seen(ctx, col_text(q, 0), col_text(q, 1));
    return query_end(q, info);
}

enum err account_contract_add(struct tx *tx, struct str account, struct str contract,
                              struct err_info *info)
{
    int64_t now = tx_now_ms(tx), same = 0;
    enum err e = tx_exec(
        tx, &account_contract_insert,
        BINDS(bind_text(account), bind_text(contract), bind_int(now), bind_int(now)), NULL, info);

    if (e != ERR_EXISTS ||
        (e = tx_select_int(tx, &account_contract_is, BINDS(bind_text(account), bind_text(contract)),
                           &same, info)))
        return e;
    return same ? ERR_OK
                : err_field(info, ERR_CONFLICT, "accounts",
                            "account " STR_FMT " became another contract meanwhile: try again",
                            STR_ARG(account));
}

enum err account_contract_end(struct tx *tx, struct str account, struct str contract,
                              struct err_info *info)
{
    return tx_exec(tx, &account_contract_delete, BINDS(bind_text(account), bind_text(contract)),
                   NULL, info);
}
