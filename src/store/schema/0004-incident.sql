-- Incidents get a way out: what money it is about, how it ended, what waits for a second person. Only core/incident writes incident and incident_proposal.

ALTER TABLE incident ADD COLUMN amount {fen} NOT NULL DEFAULT 0;
ALTER TABLE incident ADD COLUMN currency {text(3)};          -- NULL: it is about no money
ALTER TABLE incident ADD COLUMN reason {text(256)};          -- the operator's, or what ended it by itself
ALTER TABLE incident ADD COLUMN resolve_time {ms} NOT NULL DEFAULT 0;
CREATE INDEX incident_kind_i ON incident (kind, state, id);

-- An act on an incident that one person has asked for and another must do. At most one an incident.
CREATE TABLE incident_proposal (
    incident_id {no} NOT NULL,
    audit_id    {no} NOT NULL,                   -- the act of proposing
    action      {int} NOT NULL,                  -- enum incident_action
    args        {text(256)} NOT NULL,            -- what besides the action must be the same; ""
    who         {text(64)} NOT NULL,
    reason      {text(256)} NOT NULL,
    until_time  {ms} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL,
    PRIMARY KEY (incident_id)
) {narrow_end};

-- How much an account has paid back by itself within an hour. Only core/order writes it.
CREATE TABLE refund_brake (
    account     {text(64)} NOT NULL,
    hour        {int} NOT NULL,                  -- since 1970
    count       {int} NOT NULL,
    fen         {fen} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL,
    PRIMARY KEY (account, hour)
) {narrow_end};
