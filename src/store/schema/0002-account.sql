-- Which contract with a channel each account's name stands for; there before the account's first payment. Only core/account_contract writes it.

CREATE TABLE account_contract (
    account     {text(64)} NOT NULL,
    contract    {text(200)} NOT NULL,            -- the channel and the adapter's word for merchant and application
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL,
    PRIMARY KEY (account)
) {table_end};
