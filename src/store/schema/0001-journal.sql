-- Every move of every order, payment and refund, chained: prev_id and the hash of the row before; the head stands on the aggregate's row.

CREATE TABLE state_journal (
    id            {id},
    slot          {int} NOT NULL,
    kind          {int} NOT NULL,                -- enum number_kind of the subject
    subject_id    {no} NOT NULL,
    seq           {int} NOT NULL,                -- from 1
    from_status   {int} NOT NULL,                -- -1: created
    to_status     {int} NOT NULL,
    cause         {int} NOT NULL,                -- enum journal_cause: what triggered it
    evidence_kind {int} NOT NULL,
    evidence_ref  {no} NOT NULL,
    actor         {text(64)},
    trace_id      {text(64)},
    note          {text(256)},
    prev_id       {no} NOT NULL,                 -- 0: the first
    prev_hash     {blob} NOT NULL,               -- SHA-256 of the row before
    create_time   {ms} NOT NULL,
    update_time   {ms} NOT NULL
) {table_end};

CREATE TABLE incident (
    id            {id},
    slot          {int} NOT NULL,
    kind          {int} NOT NULL,                -- enum incident_kind
    subject_kind  {int} NOT NULL,
    subject_id    {no} NOT NULL,
    discriminator {text(128)} NOT NULL,
    caller        {int} NOT NULL,
    state         {int} NOT NULL,                -- 0 open, 1 resolved
    policy        {int} NOT NULL,
    count         {int} NOT NULL,
    last_report   {no} NOT NULL,                 -- which report was counted last: one that runs twice counts once
    detail        {text(512)},
    resolution    {int} NOT NULL,
    who           {text(64)},
    evidence_ref  {no} NOT NULL,
    last_seen     {ms} NOT NULL,
    version       {int} NOT NULL,
    create_time   {ms} NOT NULL,
    update_time   {ms} NOT NULL
) {table_end};
CREATE UNIQUE INDEX incident_u ON incident (subject_id, kind, discriminator);
CREATE INDEX incident_state_i ON incident (state, id);
