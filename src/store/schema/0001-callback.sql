-- What channels sent us, byte for byte. Only core/callback writes it. subject_id is our payment's id, or the hash of a number that does not parse.

CREATE TABLE callback_log (
    id                 {id},
    slot               {int} NOT NULL,
    account            {text(64)} NOT NULL,
    kind               {text(64)} NOT NULL,
    subject_id         {no} NOT NULL,
    subject_no         {text(64)} NOT NULL,      -- as received
    event_key          {text(200)} NOT NULL,
    transport_id       {text(64)},
    body               {blob} NOT NULL,
    headers            {blob} NOT NULL,          -- "name: value" lines
    plain              {blob},                   -- decrypted text
    sign_verify_result {int} NOT NULL,           -- 1: verified
    handle_result      {int} NOT NULL,           -- 0 pending, 1 done, 2 failed, 3 nothing to do
    reason             {text(256)},
    response           {int} NOT NULL,           -- enum notice_answer given last
    callback_count     {int} NOT NULL,
    retry_count        {int} NOT NULL,
    next_retry_time    {ms} NOT NULL,
    trace_id           {text(64)},
    create_time        {ms} NOT NULL,
    update_time        {ms} NOT NULL
) {table_end};
CREATE UNIQUE INDEX callback_event_u ON callback_log (subject_id, event_key);

CREATE TABLE callback_due (
    due {ms} NOT NULL,
    id  {no} NOT NULL,
    PRIMARY KEY (due, id)
) {narrow_end};

-- Samples of deliveries that did not verify; capped, a flood cannot fill the disk.
CREATE TABLE callback_reject (
    id          {id},
    account     {text(64)} NOT NULL,
    reason      {text(64)} NOT NULL,
    detail      {text(256)},
    peer        {text(64)},
    body        {blob},
    headers     {blob},
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL
) {table_end};
