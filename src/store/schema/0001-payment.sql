-- One attempt to collect the money of one order through one channel account. Only core/payment writes it.

CREATE TABLE payment_order (
    id                {id},
    slot              {int} NOT NULL,
    order_id          {no} NOT NULL,
    caller            {int} NOT NULL,
    account           {text(64)} NOT NULL,
    environment       {int} NOT NULL,            -- enum environment
    channel           {int} NOT NULL,            -- enum channel_id
    method            {int} NOT NULL,            -- enum pay_method
    user_id           {text(64)} NOT NULL,
    payer             {text(128)},               -- openid as given by the caller
    client_ip         {text(45)},
    amount            {fen} NOT NULL,
    currency          {text(3)} NOT NULL,
    status            {int} NOT NULL,            -- enum payment_status
    live              {no} NOT NULL,             -- 0 while open or succeeded, else the row's own id: see payment_live_u
    late              {int} NOT NULL,            -- 1: succeeded after FAILED or CLOSED
    quarantined       {int} NOT NULL,
    superseded        {int} NOT NULL,
    settled           {int} NOT NULL,            -- 0 not yet, 1 won, 2 surplus or after close, 3 set aside
    paid_amount       {fen} NOT NULL,
    payer_amount      {fen} NOT NULL,
    channel_discount  {fen} NOT NULL,
    refunding         {fen} NOT NULL,
    refunded          {fen} NOT NULL,
    transaction_id    {text(64)},                -- NULL until known
    grant_key         {text(128)},               -- Apple; NULL elsewhere
    credentials       {blob},                    -- what the client needs, JSON as the adapter made it
    credential_expire {ms} NOT NULL,
    request_endpoint  {text(256)} NOT NULL,      -- the prepay request exactly as it is sent every time
    request_body      {blob} NOT NULL,
    calls             {int} NOT NULL,            -- prepay calls made
    unknown_calls     {int} NOT NULL,            -- prepay calls whose outcome was unknown
    call_owner        {int} NOT NULL,            -- call lease: 0 free
    call_until        {ms} NOT NULL,
    close_requested   {int} NOT NULL,            -- enum payment_close: 0 no, else why
    close_time        {ms} NOT NULL,             -- when it was requested
    request_id        {text(64)} NOT NULL,       -- the caller's, or the own number
    digest            {blob} NOT NULL,
    expire_time       {ms} NOT NULL,             -- the time_expire the channel was told
    pay_time          {ms} NOT NULL,             -- the channel's
    next_query_time   {ms} NOT NULL,             -- its row in payment_due; 0: none
    query_count       {int} NOT NULL,
    evidence_kind     {int} NOT NULL,
    evidence_ref      {no} NOT NULL,
    trace_id          {text(64)},
    route             {text(256)},               -- why this account
    version           {int} NOT NULL,
    journal_id        {no} NOT NULL,
    journal_seq       {int} NOT NULL,
    journal_hash      {blob} NOT NULL,
    create_time       {ms} NOT NULL,
    update_time       {ms} NOT NULL
) {table_end};
CREATE UNIQUE INDEX payment_request_u ON payment_order (order_id, request_id);
-- One open (or succeeded) attempt per order and channel: a partial index that every engine has.
CREATE UNIQUE INDEX payment_live_u ON payment_order (order_id, channel, live);
-- Without the payments whose id is not known yet: moving an entry from there to its place would cost a success one page more.
CREATE UNIQUE INDEX payment_transaction_u ON payment_order (account, transaction_id) {partial} WHERE transaction_id IS NOT NULL {partial_end};
CREATE INDEX payment_user_i ON payment_order (user_id, id);

-- The query ladder and requested closes. A row whose due is not the payment's next_query_time is an extra wake-up.
-- A SUCCESS keeps its row until settled is not 0, so that the settle sweep needs no index. Removed lazily by the job.
CREATE TABLE payment_due (
    due {ms} NOT NULL,
    id  {no} NOT NULL,
    PRIMARY KEY (due, id)
) {narrow_end};

-- Every request to a channel and its answer; secrets and payer ids masked. Kept for days.
CREATE TABLE channel_call (
    id          {id},
    slot        {int} NOT NULL,
    subject_id  {no} NOT NULL,
    account     {text(64)} NOT NULL,
    kind        {int} NOT NULL,                  -- enum call_kind
    outcome     {int} NOT NULL,                  -- enum channel_outcome
    class       {int} NOT NULL,                  -- enum channel_class
    code        {text(64)},
    message     {text(512)},
    http_status {int} NOT NULL,
    request     {blob},
    answer      {blob},
    channel_request_id {text(128)},
    took_us     {int} NOT NULL,
    trace_id    {text(64)},
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL
) {table_end};
CREATE INDEX channel_call_subject_i ON channel_call (subject_id, id);
