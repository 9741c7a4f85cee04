-- One return of money from one payment. Only core/refund writes these tables.

CREATE TABLE refund_order (
    id                {id},
    slot              {int} NOT NULL,
    pay_id            {no} NOT NULL,
    order_id          {no} NOT NULL,
    caller            {int} NOT NULL,
    account           {text(64)} NOT NULL,
    channel           {int} NOT NULL,            -- enum channel_id
    origin            {int} NOT NULL,            -- enum refund_origin
    request_id        {text(96)} NOT NULL,       -- the caller's, or what the origin makes of its reason
    digest            {blob} NOT NULL,           -- SHA-256 over what was asked for
    amount            {fen} NOT NULL,
    currency          {text(3)} NOT NULL,
    status            {int} NOT NULL,            -- enum refund_status
    late              {int} NOT NULL,            -- 1: succeeded after FAILED
    reason            {text(256)},
    channel_refund_id {text(64)},                -- NULL until known
    error_code        {text(64)},                -- of the channel's last refusal
    error_message     {text(256)},
    error_class       {int} NOT NULL,            -- enum channel_class
    request_endpoint  {text(256)},               -- exactly as it is sent every time; NULL until the first time
    request_body      {blob},
    step              {int} NOT NULL,            -- enum refund_step: what its next turn does
    turn_id           {no} NOT NULL,             -- who took the last turn: a turn that runs twice is one
    calls             {int} NOT NULL,            -- times it was sent
    unknown_calls     {int} NOT NULL,            -- of them, those nobody knows the outcome of
    missing_count     {int} NOT NULL,            -- queries since the last sending that did not know it
    missing_time      {ms} NOT NULL,             -- the last one that counted
    held              {int} NOT NULL,            -- 1: waits for somebody to do something
    sent_time         {ms} NOT NULL,             -- the last sending, 0 before
    next_time         {ms} NOT NULL,             -- its row in refund_due; 0: none
    query_count       {int} NOT NULL,
    evidence_kind     {int} NOT NULL,
    evidence_ref      {no} NOT NULL,
    done_time         {ms} NOT NULL,             -- the channel's
    trace_id          {text(64)},
    version           {int} NOT NULL,
    journal_id        {no} NOT NULL,
    journal_seq       {int} NOT NULL,
    journal_hash      {blob} NOT NULL,
    create_time       {ms} NOT NULL,
    update_time       {ms} NOT NULL
) {table_end};
-- By origin, so that no caller can take the place of an automatic refund.
CREATE UNIQUE INDEX refund_request_u ON refund_order (pay_id, origin, request_id);

CREATE TABLE refund_item (
    refund_id   {no} NOT NULL,
    line_no     {int} NOT NULL,
    quantity    {int} NOT NULL,
    amount      {fen} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL,
    PRIMARY KEY (refund_id, line_no)
) {table_end};

-- When a refund's next turn comes. Removed by the turn.
CREATE TABLE refund_due (
    due {ms} NOT NULL,
    id  {no} NOT NULL,
    PRIMARY KEY (due, id)
) {narrow_end};
