/**
 * The oldest format whose versions can go on with a file of the present one, as they know by its `application_id`: so
 * that a node can go back by a version without a copy. A step after which they could not, or would lose what a newer
 * version has written, raises it to its own number.
 */
export const READABLE_SINCE = 19

/**
 * Steps from each format of the file to the next; `user_version` counts them. A step that was released is never
 * changed: files exist that took it.
 */
export const MIGRATIONS: readonly string[] = [
  `
  -- A slot is free when there is no row, or its row is of the past. A running one whose lease is over is burned.
  CREATE TABLE slots (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'stored', 'burned')),
    token TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    result TEXT,
    PRIMARY KEY (workspace, id)
  ) STRICT;
  CREATE INDEX slots_by_expiry ON slots (expires_at_ms);

  -- Tokens that must be remembered: of calls that were cancelled, and of batches of usage that were counted.
  CREATE TABLE tokens (
    workspace TEXT NOT NULL,
    token TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('cancelled', 'usage')),
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (workspace, token, purpose)
  ) STRICT;
  CREATE INDEX tokens_by_end ON tokens (until_ms);

  CREATE TABLE accounts (
    workspace TEXT PRIMARY KEY,
    credits_micros INTEGER NOT NULL,
    trial_spent_micros INTEGER NOT NULL,
    overage_micros INTEGER NOT NULL,
    expired_count INTEGER NOT NULL,
    expired_micros INTEGER NOT NULL,
    month TEXT NOT NULL,
    spent_micros INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- What a key has spent in the last month in which it spent anything.
  CREATE TABLE key_spending (
    workspace TEXT NOT NULL,
    key_id TEXT NOT NULL,
    month TEXT NOT NULL,
    spent_micros INTEGER NOT NULL,
    PRIMARY KEY (workspace, key_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE grants (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    micros INTEGER NOT NULL,
    booked_at_ms INTEGER NOT NULL,
    PRIMARY KEY (workspace, id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE reservations (
    workspace TEXT NOT NULL,
    token TEXT NOT NULL,
    key_id TEXT NOT NULL,
    purse TEXT NOT NULL CHECK (purse IN ('trial', 'credits', 'none')),
    platform_micros INTEGER NOT NULL,
    spend_micros INTEGER NOT NULL,
    month TEXT NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    PRIMARY KEY (workspace, token)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX reservations_by_lease ON reservations (workspace, lease_until_ms);

  CREATE TABLE stored_keys (
    id TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL,
    prefix TEXT NOT NULL,
    workspace TEXT NOT NULL,
    app TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    requests_per_minute REAL,
    burst REAL,
    budget_micros INTEGER,
    expires_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    revoked_at_ms INTEGER
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE keys_version (version INTEGER NOT NULL) STRICT;
  INSERT INTO keys_version VALUES (0);

  CREATE TABLE audio_url_domains (
    workspace TEXT PRIMARY KEY,
    domains TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE webhooks (
    workspace TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    previous_secret TEXT,
    previous_until_ms INTEGER
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Jobs, without what never changes of them. A job that is queued is ready, or waits until it is due.
  CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('transcription', 'queue')),
    mode TEXT NOT NULL CHECK (mode IN ('priority', 'standard', 'bulk')),
    workspace TEXT NOT NULL,
    app TEXT NOT NULL,
    event_id TEXT,
    slot_id TEXT,
    status TEXT NOT NULL CHECK (status IN ('queued', 'processing', 'succeeded', 'failed', 'cancelled')),
    -- Whether it stands in the list of its mode and workspace, and where: the smallest place is taken first.
    ready INTEGER NOT NULL,
    place INTEGER NOT NULL,
    due_at_ms INTEGER,
    lease_until_ms INTEGER,
    -- When it is handed out to be purged; a job that is marked has been, and can no longer be seen.
    purge_at_ms INTEGER,
    marked INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    started_at_ms INTEGER,
    ended_at_ms INTEGER,
    expires_at_ms INTEGER,
    cancel_requested INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    strays INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    returns INTEGER NOT NULL,
    -- How the claim of this fence was ended by whoever held it.
    ending TEXT,
    history TEXT NOT NULL,
    error TEXT,
    facts TEXT,
    progress TEXT,
    result TEXT
  ) STRICT;
  CREATE INDEX jobs_ready ON jobs (workspace, mode, place) WHERE ready = 1;
  CREATE INDEX jobs_delayed ON jobs (due_at_ms) WHERE due_at_ms IS NOT NULL;
  CREATE INDEX jobs_leased ON jobs (lease_until_ms) WHERE lease_until_ms IS NOT NULL;
  CREATE INDEX jobs_running ON jobs (workspace) WHERE status = 'processing';
  CREATE INDEX jobs_to_purge ON jobs (purge_at_ms) WHERE purge_at_ms IS NOT NULL;
  CREATE INDEX jobs_to_list ON jobs (kind, status, number, workspace) WHERE marked = 0;

  -- JSON of what never changes of a job. It may be large, and is not written again with every change.
  CREATE TABLE job_specs (
    number INTEGER PRIMARY KEY,
    spec TEXT NOT NULL
  ) STRICT;

  CREATE TABLE job_counters (
    -- The last place that was given to a job.
    place INTEGER NOT NULL,
    -- How far the sequence of modes has come.
    step INTEGER NOT NULL,
    -- Jobs that are queued.
    waiting INTEGER NOT NULL
  ) STRICT;
  INSERT INTO job_counters VALUES (0, 0, 0);

  -- Workspaces with ready jobs of a mode: the smallest turn is served next, and gets the largest. One that had as many
  -- running jobs as it may have is parked until one of them ends.
  CREATE TABLE job_turns (
    workspace TEXT NOT NULL,
    mode TEXT NOT NULL,
    turn INTEGER NOT NULL,
    -- How many running jobs were as many as it may have; null: it is not parked.
    parked INTEGER,
    PRIMARY KEY (workspace, mode)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX job_turns_open ON job_turns (mode, turn) WHERE parked IS NULL;
  CREATE INDEX job_turns_parked ON job_turns (parked) WHERE parked IS NOT NULL;

  -- Idempotency keys of submissions.
  CREATE TABLE job_slots (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    job_id TEXT NOT NULL,
    keep_until_ms INTEGER NOT NULL,
    -- The same, once the job's record is gone; null: it is kept as long as that.
    free_at_ms INTEGER,
    PRIMARY KEY (workspace, id)
  ) STRICT;
  CREATE INDEX job_slots_to_free ON job_slots (free_at_ms) WHERE free_at_ms IS NOT NULL;

  CREATE TABLE events (
    job_id TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('succeeded', 'failed', 'cancelled')),
    occurred_at_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    -- When it may be taken: it is due, or the lease of its attempt is over. Null: it was given up.
    next_at_ms INTEGER,
    leased INTEGER NOT NULL,
    -- It is to be delivered anew whatever comes of the attempt under way.
    again INTEGER NOT NULL,
    kept_until_ms INTEGER,
    reason TEXT
  ) STRICT;
  CREATE INDEX events_next ON events (workspace, next_at_ms) WHERE next_at_ms IS NOT NULL;
  CREATE INDEX events_leased ON events (workspace, next_at_ms) WHERE leased = 1;
  CREATE INDEX events_given_up ON events (kept_until_ms) WHERE kept_until_ms IS NOT NULL;
  CREATE INDEX events_to_list ON events (occurred_at_ms, workspace);

  -- Workspaces with events, and those whose last attempt failed. Who wakes first is served first; who was served and
  -- has more of them that are due wakes at once, behind the others.
  CREATE TABLE event_turns (
    workspace TEXT PRIMARY KEY,
    wake_at_ms INTEGER,
    turn INTEGER NOT NULL,
    ailing INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX event_turns_next ON event_turns (wake_at_ms, turn) WHERE wake_at_ms IS NOT NULL;
  `,
  `
  -- The claim of the job that holds it; 0: of a call.
  ALTER TABLE reservations ADD COLUMN claim INTEGER NOT NULL DEFAULT 0;

  -- One purpose more: tokens of jobs that were charged.
  DROP INDEX tokens_by_end;
  ALTER TABLE tokens RENAME TO old_tokens;
  CREATE TABLE tokens (
    workspace TEXT NOT NULL,
    token TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('cancelled', 'usage', 'charged')),
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (workspace, token, purpose)
  ) STRICT;
  INSERT INTO tokens SELECT * FROM old_tokens;
  DROP TABLE old_tokens;
  CREATE INDEX tokens_by_end ON tokens (until_ms);
  `,
  `
  -- What the claim that took the job is known by, as long as it holds it.
  ALTER TABLE jobs ADD COLUMN claim_token TEXT;
  CREATE INDEX jobs_by_claim ON jobs (claim_token) WHERE claim_token IS NOT NULL;

  -- Workspaces whose last attempt failed are served behind the others.
  CREATE INDEX event_turns_by_health ON event_turns (ailing, wake_at_ms, turn) WHERE wake_at_ms IS NOT NULL;
  `,
  `
  -- For monitoring. When a job that is queued became ready to be taken, or does; null: it is not queued.
  ALTER TABLE jobs ADD COLUMN waits_from_ms INTEGER;
  UPDATE jobs SET waits_from_ms = coalesce(due_at_ms, created_at_ms) WHERE status = 'queued';
  CREATE INDEX jobs_waiting ON jobs (kind, mode, waits_from_ms) WHERE waits_from_ms IS NOT NULL;

  -- How many jobs are queued.
  CREATE TABLE job_queues (
    kind TEXT NOT NULL,
    mode TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (kind, mode)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO job_queues SELECT kind, mode, count(*) FROM jobs WHERE status = 'queued' GROUP BY kind, mode;

  -- How often jobs came to an end, and to which.
  CREATE TABLE job_ends (
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (kind, status)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Workspaces that let the console show their audio and transcripts.
  CREATE TABLE content_shown (workspace TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

  CREATE TABLE console_sessions (
    id TEXT PRIMARY KEY,
    key_sha256 TEXT NOT NULL,
    csrf_token TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX console_sessions_by_end ON console_sessions (expires_at_ms);

  -- The newest requests of each workspace, and of them what they can be chosen by.
  CREATE TABLE requests (
    number INTEGER PRIMARY KEY,
    workspace TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    id TEXT NOT NULL,
    app TEXT NOT NULL,
    key_id TEXT NOT NULL,
    path TEXT NOT NULL,
    job_id TEXT,
    failed INTEGER NOT NULL,
    kept_until_ms INTEGER NOT NULL,
    record TEXT NOT NULL
  ) STRICT;
  CREATE INDEX requests_to_list ON requests (workspace, at_ms);
  CREATE INDEX requests_by_end ON requests (kept_until_ms);

  -- Batches of requests that were kept.
  CREATE TABLE request_batches (
    token TEXT PRIMARY KEY,
    until_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX request_batches_by_end ON request_batches (until_ms);

  CREATE TABLE node_samples (
    node TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    kept_until_ms INTEGER NOT NULL,
    sample TEXT NOT NULL,
    PRIMARY KEY (at_ms, node)
  ) STRICT;
  CREATE INDEX node_samples_by_end ON node_samples (kept_until_ms);

  CREATE TABLE key_uses (
    key_id TEXT PRIMARY KEY,
    used_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Parts of the catalog that are made in the console, by what names them in the audit list. One with neither draft nor
  -- published version was removed.
  CREATE TABLE catalog_records (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    workspace TEXT,
    name TEXT NOT NULL,
    -- The last revision that a draft was given; that of the draft, when there is one.
    revision INTEGER NOT NULL,
    draft_fields TEXT,
    draft_at_ms INTEGER,
    draft_by TEXT,
    -- The version in force.
    published INTEGER
  ) STRICT;
  CREATE INDEX catalog_records_by_workspace ON catalog_records (workspace);

  CREATE TABLE catalog_versions (
    record TEXT NOT NULL,
    number INTEGER NOT NULL,
    -- Whose the record was.
    workspace TEXT,
    fields TEXT NOT NULL,
    hash TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    by TEXT NOT NULL,
    note TEXT,
    PRIMARY KEY (record, number)
  ) STRICT;

  CREATE TABLE catalog_audit (
    number INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    by TEXT NOT NULL,
    action TEXT NOT NULL,
    workspace TEXT,
    target TEXT NOT NULL,
    hash_before TEXT,
    hash_after TEXT,
    detail TEXT
  ) STRICT;
  CREATE INDEX catalog_audit_by_workspace ON catalog_audit (workspace, number);

  CREATE TRIGGER catalog_versions_stay BEFORE UPDATE ON catalog_versions
    BEGIN SELECT RAISE(ABORT, 'versions are never changed'); END;
  CREATE TRIGGER catalog_versions_remain BEFORE DELETE ON catalog_versions
    BEGIN SELECT RAISE(ABORT, 'versions are never changed'); END;
  CREATE TRIGGER catalog_audit_stays BEFORE UPDATE ON catalog_audit
    BEGIN SELECT RAISE(ABORT, 'the audit list is only added to'); END;
  CREATE TRIGGER catalog_audit_remains BEFORE DELETE ON catalog_audit
    BEGIN SELECT RAISE(ABORT, 'the audit list is only added to'); END;

  CREATE TABLE catalog_version (version INTEGER NOT NULL) STRICT;
  INSERT INTO catalog_version VALUES (0);

  -- Changes and lines of the audit list that may be sent again, and what the changes were answered.
  CREATE TABLE catalog_tokens (
    token TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('change', 'note')),
    answer TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (purpose, token)
  ) STRICT;
  CREATE INDEX catalog_tokens_by_end ON catalog_tokens (until_ms);
  `,
  `
  -- Named after what they are.
  ALTER TABLE jobs RENAME COLUMN strays TO stalled;
  ALTER TABLE job_turns RENAME TO job_round_robin;
  -- How many running jobs of the workspace were as many as it may have; null: it is served.
  ALTER TABLE job_round_robin RENAME COLUMN parked TO throttled_at;
  ALTER TABLE event_turns RENAME TO event_round_robin;
  `,
  `
  -- 'playground': the key of a page of the playground. Such keys were told by their name and their life of an hour.
  ALTER TABLE stored_keys ADD COLUMN kind TEXT;
  UPDATE stored_keys SET kind = 'playground'
  WHERE name = 'playground' AND expires_at_ms = created_at_ms + 3600000;
  `,
  `
  -- The owner deleted what was sent and heard. JSON: the specification that takes the place of the job's own with its
  -- end; 'done': it has.
  ALTER TABLE jobs ADD COLUMN erased TEXT;
  CREATE INDEX jobs_of_app ON jobs (workspace, app, id) WHERE kind = 'transcription' AND marked = 0;
  `,
  `
  -- Events of alerts: their job_id is their own, and they have a body. SQLite changes no CHECK in place.
  ALTER TABLE events RENAME TO events_before;
  CREATE TABLE events (
    job_id TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('succeeded', 'failed', 'cancelled', 'alert')),
    occurred_at_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    -- When it may be taken: it is due, or the lease of its attempt is over. Null: it was given up.
    next_at_ms INTEGER,
    leased INTEGER NOT NULL,
    -- It is to be delivered anew whatever comes of the attempt under way.
    again INTEGER NOT NULL,
    kept_until_ms INTEGER,
    reason TEXT,
    -- JSON; null: it is made of the rest.
    body TEXT
  ) STRICT;
  INSERT INTO events SELECT *, NULL FROM events_before ORDER BY rowid;
  DROP TABLE events_before;
  CREATE INDEX events_next ON events (workspace, next_at_ms) WHERE next_at_ms IS NOT NULL;
  CREATE INDEX events_leased ON events (workspace, next_at_ms) WHERE leased = 1;
  CREATE INDEX events_given_up ON events (kept_until_ms) WHERE kept_until_ms IS NOT NULL;
  CREATE INDEX events_to_list ON events (occurred_at_ms, workspace);

  -- What alerts told of and is not over.
  CREATE TABLE incidents (
    name TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    record TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Spending of end users that have a budget, in the month that was their last.
  CREATE TABLE end_user_spending (
    workspace TEXT NOT NULL,
    account TEXT NOT NULL,
    month TEXT NOT NULL,
    spent_micros INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (workspace, account)
  ) STRICT;
  CREATE INDEX end_user_spending_by_end ON end_user_spending (expires_at_ms);
  -- Whose spending it is as well; null: no end user's.
  ALTER TABLE reservations ADD COLUMN end_user TEXT;
  `,
  `
  -- JSON: the key that this one has taken the place of, and until when that is taken too.
  ALTER TABLE stored_keys ADD COLUMN former TEXT;
  `,
  `
  -- Sessions of people beside those of keys, whose digest is empty then. Those that began before have no idle limit.
  ALTER TABLE console_sessions ADD COLUMN holder TEXT NOT NULL DEFAULT '';
  ALTER TABLE console_sessions ADD COLUMN person TEXT;
  ALTER TABLE console_sessions ADD COLUMN began_at_ms INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE console_sessions ADD COLUMN seen_at_ms INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE console_sessions ADD COLUMN idle_ms INTEGER;
  UPDATE console_sessions
  SET holder = 'key:' || key_sha256, began_at_ms = expires_at_ms - 43200000, seen_at_ms = expires_at_ms - 43200000;
  CREATE INDEX console_sessions_of_holder ON console_sessions (holder, expires_at_ms);

  -- Marks of the console that one sign-in each may take.
  CREATE TABLE console_marks (
    mark TEXT PRIMARY KEY,
    until_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX console_marks_by_end ON console_marks (until_ms);
  `,
  `
  -- Jobs that no worker has ended and whose usage is not recorded yet.
  CREATE TABLE abandoned_jobs (
    number INTEGER PRIMARY KEY,
    -- What its runs had cost by then.
    charged_micros INTEGER NOT NULL,
    -- From when on it may be handed out to be recorded.
    next_at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX abandoned_jobs_next ON abandoned_jobs (next_at_ms);
  `,
  `
  -- Since when charges are booked, which is a full hour, and what they came to by month.
  ALTER TABLE accounts ADD COLUMN booked_since_ms INTEGER NOT NULL DEFAULT 0;
  UPDATE accounts SET booked_since_ms = (unixepoch() / 3600 + 1) * 3600000;
  CREATE TABLE booked (
    workspace TEXT NOT NULL,
    month TEXT NOT NULL,
    micros INTEGER NOT NULL,
    PRIMARY KEY (workspace, month)
  ) STRICT, WITHOUT ROWID;

  -- Of a lease: what calls under way have of it. Null: it is none.
  ALTER TABLE reservations ADD COLUMN used_platform_micros INTEGER;
  ALTER TABLE reservations ADD COLUMN used_spend_micros INTEGER;

  -- What nodes were charged for that died.
  CREATE TABLE lost_money (
    workspace TEXT NOT NULL,
    token TEXT NOT NULL,
    -- Whether it is recorded as it is, and whether the records of its node were read.
    recorded INTEGER NOT NULL,
    recovered INTEGER NOT NULL,
    purse TEXT NOT NULL,
    platform_micros INTEGER NOT NULL,
    spend_micros INTEGER NOT NULL,
    month TEXT NOT NULL,
    key_id TEXT NOT NULL,
    end_user TEXT,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (workspace, token)
  ) STRICT;
  `,
  `
  -- The document of facts about models that was put beside the one of the program: one row, or none.
  CREATE TABLE catalog_models (json TEXT NOT NULL) STRICT;
  `,
  `
  -- Where sessions of the console were begun from, and with which browser; null before.
  ALTER TABLE console_sessions ADD COLUMN address TEXT;
  ALTER TABLE console_sessions ADD COLUMN browser TEXT;
  `,
  `
  -- Limits of tokens and audio seconds beside those of requests, as JSON; null: none.
  ALTER TABLE stored_keys ADD COLUMN unit_rates TEXT;
  `,
  `
  -- Small audio of jobs that have not ended, which is not in its object yet.
  CREATE TABLE job_inputs (
    number INTEGER PRIMARY KEY,
    -- Since when it is here, or from when on it may be handed out again to be moved.
    since_ms INTEGER NOT NULL,
    input BLOB NOT NULL
  ) STRICT;
  CREATE INDEX job_inputs_since ON job_inputs (since_ms);
  `,
  `
  -- The version that a change of the key has made; 0: it was before there was this column.
  ALTER TABLE stored_keys ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX stored_keys_version ON stored_keys (version);
  `,
]
