/** A step of the migrations: tables of the catalog that is made in the console. */
export const CATALOG_TABLES = `
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
`
