-- Events: the outbox row is the truth. Every statement on these tables stands in bus/bus_sql.c.

CREATE TABLE outbox (
    id           {id},
    slot         {int} NOT NULL,
    type         {int} NOT NULL,                 -- enum event_type
    subject_kind {int} NOT NULL,                 -- enum number_kind
    subject_id   {no} NOT NULL,
    caller       {int} NOT NULL,
    sequence     {int} NOT NULL,                 -- the subject's version after the move
    data         {blob} NOT NULL,                -- JSON, the CloudEvent's data
    trace_id     {text(64)},
    parked       {text(256)},                    -- reason; NULL: fine
    create_time  {ms} NOT NULL,
    update_time  {ms} NOT NULL
) {table_end};

-- The pending row: written with the event, removed in the rule that publishes it.
CREATE TABLE outbox_due (
    due {ms} NOT NULL,
    id  {no} NOT NULL,
    PRIMARY KEY (due, id)
) {narrow_end};

-- The feed: numbered in the rule that publishes, by the one publisher of this database, so it has no gaps.
CREATE TABLE event_feed (
    seq         {id},
    caller      {int} NOT NULL,
    event_id    {no} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL
) {table_end};
CREATE UNIQUE INDEX event_feed_caller_u ON event_feed (caller, seq);

-- One row per (event, target): webhooks always, in-process consumers from their first failure on.
CREATE TABLE event_delivery (
    event_id    {no} NOT NULL,
    target      {text(64)} NOT NULL,             -- "webhook:<id>", "consumer:<name>" or "consumer:*" (a replay)
    state       {int} NOT NULL,                  -- enum delivery_state: 0 pending, 1 delivered, 2 dead
    tries       {int} NOT NULL,
    next_time   {ms} NOT NULL,
    lease_until {ms} NOT NULL,
    last_error  {text(256)},
    version     {int} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL,
    PRIMARY KEY (event_id, target)
) {table_end};

-- By target first: each target is served by itself, so that a slow one hurts only itself. A dead delivery stays at the end of time.
CREATE TABLE delivery_due (
    target   {text(64)} NOT NULL,
    due      {ms} NOT NULL,
    event_id {no} NOT NULL,
    PRIMARY KEY (target, due, event_id)
) {narrow_end};

CREATE TABLE consumed_event (
    consumer    {text(32)} NOT NULL,
    event_id    {no} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL,
    PRIMARY KEY (consumer, event_id)
) {narrow_end};

CREATE TABLE webhook (
    id          {id},
    caller      {int} NOT NULL,
    url         {text(512)} NOT NULL,
    secret      {text(256)} NOT NULL,            -- enc:v1:…
    secret_old  {text(256)},                     -- signs too while rotating
    types       {int} NOT NULL,                  -- bit mask of enum event_type; 0: all
    state       {int} NOT NULL,                  -- 0 on, 1 off
    version     {int} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL
) {table_end};
