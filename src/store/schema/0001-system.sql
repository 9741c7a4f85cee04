-- What belongs to no order: always in the first database.

CREATE TABLE lease (
    name        {text(64)} NOT NULL,
    owner       {text(64)} NOT NULL,
    fence       {int} NOT NULL,
    until_time  {ms} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL,
    PRIMARY KEY (name)
) {table_end};

-- Business systems with credentials. id 0 does not exist; a caller is never removed.
CREATE TABLE caller (
    id          {id},
    name        {text(64)} NOT NULL,
    permissions {int} NOT NULL,                  -- bits of enum permission
    rate_class  {int} NOT NULL,
    state       {int} NOT NULL,                  -- 0 on, 1 off
    version     {int} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL
) {table_end};
CREATE UNIQUE INDEX caller_name_u ON caller (name);

-- At most two keys per caller and kind, during rotation.
CREATE TABLE caller_key (
    id          {id},
    caller      {int} NOT NULL,
    kind        {int} NOT NULL,                  -- 1 bearer (hash), 2 HMAC (secret, encrypted)
    key_id      {text(32)} NOT NULL,             -- the public part: which key
    hash        {blob},                          -- SHA-256 of the bearer key
    secret      {text(256)},                     -- enc:v1:… of the HMAC secret
    state       {int} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL
) {table_end};
CREATE UNIQUE INDEX caller_key_u ON caller_key (key_id);

-- Nonces of HMAC-signed requests, remembered for the window.
CREATE TABLE caller_nonce (
    caller      {int} NOT NULL,
    nonce       {text(64)} NOT NULL,
    until_time  {ms} NOT NULL,
    PRIMARY KEY (caller, nonce)
) {narrow_end};
CREATE INDEX caller_nonce_until_i ON caller_nonce (until_time); -- each insert clears a few that are over

CREATE TABLE audit_log (
    id          {id},
    who         {text(64)} NOT NULL,
    act         {text(64)} NOT NULL,
    subject     {text(64)},
    detail      {text(512)},
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL
) {table_end};

-- Platform certificates and other key material learnt at run time, so that a restart has the last good set.
CREATE TABLE channel_key (
    account     {text(64)} NOT NULL,
    serial      {text(64)} NOT NULL,
    origin      {text(64)} NOT NULL,             -- the adapter's word for the contract it was learnt under
    pem         {blob} NOT NULL,
    not_before  {ms} NOT NULL,
    not_after   {ms} NOT NULL,
    create_time {ms} NOT NULL,
    update_time {ms} NOT NULL,
    PRIMARY KEY (account, serial)
) {table_end};
