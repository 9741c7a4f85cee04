-- What a user buys. Only core/order writes these tables. Ids are snowflakes minted by us; text numbers are derived from id and slot.

CREATE TABLE order_info (
    id                {id},
    slot              {int} NOT NULL,
    caller            {int} NOT NULL,            -- caller.id
    order_key         {text(200)} NOT NULL,      -- m<merchant_order_no> | r<user_id> U+001F <request_id> | o<own number>
    merchant_order_no {text(64)},
    user_id           {text(64)} NOT NULL,
    subject           {text(256)} NOT NULL,
    order_amount      {fen} NOT NULL,            -- sum of items, or the given amount
    discount          {fen} NOT NULL,
    shipping          {fen} NOT NULL,
    tax               {fen} NOT NULL,
    pay_amount        {fen} NOT NULL,            -- what is to be paid, > 0
    currency          {text(3)} NOT NULL,
    order_status      {int} NOT NULL,            -- enum order_status
    refund_status     {int} NOT NULL,            -- 0 none, 1 part, 2 full
    inline_order      {int} NOT NULL,            -- 1: made by a payment request
    pay_id            {no},                      -- the winning payment, NULL before
    channel           {int} NOT NULL,            -- of the winning payment, 0 before
    transaction_id    {text(64)},
    pay_time          {ms} NOT NULL,
    expire_time       {ms} NOT NULL,             -- 0: never
    cancel_requested  {int} NOT NULL,            -- enum order_cancel: 0 no, 1 by the caller, 2 expiry
    cancel_reason     {text(256)},
    cancel_time       {ms} NOT NULL,
    request_id        {text(64)},
    digest            {blob} NOT NULL,           -- SHA-256 over the canonical business fields
    remark            {text(256)},
    trace_id          {text(64)},
    version           {int} NOT NULL,
    journal_id        {no} NOT NULL,             -- head of the journal chain
    journal_seq       {int} NOT NULL,
    journal_hash      {blob} NOT NULL,
    create_time       {ms} NOT NULL,
    update_time       {ms} NOT NULL
) {table_end};
CREATE UNIQUE INDEX order_key_u ON order_info (caller, order_key);
CREATE INDEX order_user_i ON order_info (caller, user_id, id);
CREATE INDEX order_caller_i ON order_info (caller, id);

CREATE TABLE order_item (
    order_id          {no} NOT NULL,
    line_no           {int} NOT NULL,            -- from 1
    sku               {text(64)} NOT NULL,
    name              {text(256)} NOT NULL,
    unit_price        {fen} NOT NULL,
    quantity          {int} NOT NULL,
    line_amount       {fen} NOT NULL,            -- unit_price * quantity
    discount          {fen} NOT NULL,
    paid_share        {fen} NOT NULL,            -- fixed at creation, largest remainder; sums up to pay_amount
    refunded_quantity {int} NOT NULL,
    create_time       {ms} NOT NULL,
    update_time       {ms} NOT NULL,
    PRIMARY KEY (order_id, line_no)
) {table_end};

-- Expiry, and cancels that wait for an attempt to close. Rows are removed by the job when it has seen them.
CREATE TABLE order_due (
    due {ms} NOT NULL,
    id  {no} NOT NULL,
    PRIMARY KEY (due, id)
) {narrow_end};
