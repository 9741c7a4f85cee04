/* account_contract.h -- which contract with a channel (merchant, application) an account's name
 * stands for.
 *
 * Payments name their account. Asked under another merchant number, the channel would say that a
 * payment under way does not exist, and without the account nobody could ask at all. So a contract
 * is written down before its first payment can exist, and a configuration that lacks it is refused
 * for as long as a payment needs it. */
#ifndef FENPAY_ACCOUNT_CONTRACT_H
#define FENPAY_ACCOUNT_CONTRACT_H

#include "channel/registry.h"
#include "store/store.h"

/* Before anybody uses the accounts in `registry`: durable when this returns. ERR_CONFLICT, field
 * "accounts": payments still need a contract that is not among them; says which, and what differs.
 * `running`: the process has accounts already and goes on with them, so that none changes its
 * contract, and those that are gone from the configuration keep theirs until the next start.
 *
 * Reads one row an account, nothing of the payments unless a contract is missing. The store's owner
 * lock keeps others from making payments meanwhile. */
enum err account_contracts_keep(struct store *store, struct env *env, struct registry *registry,
                                bool running, struct err_info *info);

/* ---- the rows (account_contract_sql.c) ---- */

/* Each of them, texts in tx_arena. */
typedef void account_contract_seen(void *ctx, struct str account, struct str contract);
enum err account_contracts_each(struct tx *tx, account_contract_seen *seen, void *ctx,
                                struct err_info *info);
/* May run again. ERR_CONFLICT: the name stands for another contract. */
enum err account_contract_add(struct tx *tx, struct str account, struct str contract,
                              struct err_info *info);
/* Nothing, when the name stands for another one or none. */
enum err account_contract_end(struct tx *tx, struct str account, struct str contract,
                              struct err_info *info);

#endif
