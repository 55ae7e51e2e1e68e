import type { ConsoleSessions, KeptSession, KeyUses, SessionPerson } from '../../../contracts/console.ts'
import { createPurge, type StateDatabase } from './database.ts'
import type { Operations, Subjects } from './subjects.ts'

/** Failed requests that are kept of a workspace, and others as many, for a week. */
const REQUESTS_MAX = 1_000
const REQUESTS_MS = 7 * 86_400_000
/** How long a batch of them is known: a sender that does not hear that it was kept gives up before. */
const BATCH_MS = 600_000
/** Expired rows of each kind that a sample deletes; samples come every few seconds. */
const PURGE_ROWS = 2_000

const SESSION = `id, nullif(key_sha256, '') AS keySha256, person, holder, csrf_token AS csrfToken, idle_ms AS idleMs,
  address, browser, began_at_ms AS beganAtMs, seen_at_ms AS seenAtMs, expires_at_ms AS expiresAtMs`

type SessionRow = Omit<KeptSession, 'person'> & { readonly person: string | null }

/** Keeps the sessions, requests, samples and key uses of the console. */
export function createConsole(db: StateDatabase, now: () => number) {
  return {
    sessions: createSessions(db, now),
    requests: createRequests(db, now),
    samples: createSamples(db, now),
    keyUses: createKeyUses(db, now),
  }
}

/** Holds for a session that has not ended. */
const GOES_ON = 'expires_at_ms > $now AND (idle_ms IS NULL OR seen_at_ms + idle_ms > $now)'

function createSessions(db: StateDatabase, now: () => number): Operations<ConsoleSessions> {
  const put = db.prepare(`
    INSERT OR IGNORE INTO console_sessions
      (id, key_sha256, person, holder, csrf_token, idle_ms, began_at_ms, seen_at_ms, expires_at_ms,
        address, browser)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const find = db.query<SessionRow>(`SELECT ${SESSION} FROM console_sessions WHERE id = $id AND ${GOES_ON}`)
  const touch = db.prepare(`UPDATE console_sessions SET seen_at_ms = $now WHERE id = $id AND ${GOES_ON}`)
  const remove = db.prepare('DELETE FROM console_sessions WHERE id = ?')
  const list = db.query<SessionRow>(`
    SELECT ${SESSION} FROM console_sessions WHERE ${GOES_ON} AND ($holder IS NULL OR holder = $holder)
    ORDER BY expires_at_ms DESC, id LIMIT $limit + 0`)
  const claim = db.prepare(`
    INSERT INTO console_marks (mark, until_ms) VALUES ($mark, $until)
    ON CONFLICT (mark) DO UPDATE SET until_ms = excluded.until_ms WHERE until_ms <= $now`)
  const findMark = db.prepare('SELECT 1 FROM console_marks WHERE mark = $mark AND until_ms > $now')
  return {
    begin({ id, keySha256, person, holder, csrfToken, idleMs, address, browser }, ttlMs) {
      const nowMs = now()
      const text = person === null ? null : JSON.stringify(person)
      const times = [nowMs, nowMs, nowMs + ttlMs]
      put.run(id, keySha256 ?? '', text, holder, csrfToken, idleMs, ...times, address, browser)
    },

    find(id) {
      const row = find.get({ $id: id, $now: now() })
      return row === undefined ? null : rowSession(row)
    },

    touch: (id) => void touch.run({ $id: id, $now: now() }),

    end: (id) => void remove.run(id),

    list: (holder, limit) => list.all({ $holder: holder, $now: now(), $limit: limit }).map(rowSession),

    claim(mark, ttlMs) {
      const nowMs = now()
      return claim.run({ $mark: mark, $now: nowMs, $until: nowMs + ttlMs }).changes === 1
    },

    isClaimed: (mark) => findMark.get({ $mark: mark, $now: now() }) !== undefined,
  }
}

function rowSession({ person, ...session }: SessionRow): KeptSession {
  return { ...session, person: person === null ? null : (JSON.parse(person) as SessionPerson) }
}

function createRequests(db: StateDatabase, now: () => number): Operations<Subjects['requests']> {
  const remember = db.prepare('INSERT OR IGNORE INTO request_batches (token, until_ms) VALUES (?, ?)')
  const add = db.prepare(`
    INSERT INTO requests (workspace, at_ms, id, app, key_id, path, job_id, failed, kept_until_ms, record)
    SELECT value ->> 'workspace', value ->> 'atMs', value ->> 'id', value ->> 'app', value ->> 'keyId',
      value ->> 'path', value ->> 'jobId',
      value ->> 'error' IS NOT NULL OR ifnull(value ->> 'status', 0) >= 400,
      ?, value
    FROM json_each(?)`)
  const trim = db.prepare(`
    DELETE FROM requests WHERE number IN
      (SELECT number FROM requests WHERE workspace = ? AND failed = ?
        ORDER BY at_ms DESC, number DESC LIMIT -1 OFFSET ?)`)
  const list = db.prepare(`
    SELECT record FROM requests
    WHERE workspace = $workspace AND kept_until_ms > $now AND at_ms < $before AND at_ms > $after
      AND ($failed IS NULL OR failed = $failed) AND ($path IS NULL OR path = $path)
      AND ($app IS NULL OR app = $app) AND ($key IS NULL OR key_id = $key) AND ($job IS NULL OR job_id = $job)
      AND ($request IS NULL OR id = $request)
    ORDER BY at_ms DESC, number DESC LIMIT $limit + 0`)
  // Most rows are told apart without reading their JSON.
  const get = db.prepare(`
    SELECT record FROM requests
    WHERE workspace = $workspace AND kept_until_ms > $now
      AND instr(record, $record) > 0 AND record ->> 'recordId' = $record
    LIMIT 1`)
  return {
    add(token, workspaces, records) {
      const nowMs = now()
      if (remember.run(token, nowMs + BATCH_MS).changes === 0) return
      add.run(nowMs + REQUESTS_MS, records)
      for (const workspace of workspaces)
        for (const failed of [0, 1]) trim.run(workspace, failed, REQUESTS_MAX)
    },

    list(filter) {
      const { workspace, outcome, path, app, keyId, jobId, requestId, beforeMs, afterMs, limit } = filter
      const rows = list.all({
        $workspace: workspace,
        $now: now(),
        $before: beforeMs ?? Number.MAX_SAFE_INTEGER,
        $after: afterMs ?? -1,
        $failed: outcome === null ? null : Number(outcome === 'failed'),
        $path: path,
        $app: app,
        $key: keyId,
        $job: jobId,
        $request: requestId,
        $limit: limit,
      })
      return rows.map(({ record }) => String(record))
    },

    get(workspace, recordId) {
      const row = get.get({ $workspace: workspace, $now: now(), $record: recordId })
      return row === undefined ? null : String(row.record)
    },
  }
}

function createSamples(db: StateDatabase, now: () => number): Operations<Subjects['samples']> {
  const add = db.prepare(`
    INSERT OR IGNORE INTO node_samples (node, at_ms, kept_until_ms, sample) VALUES (?, ?, ?, ?)`)
  const since = db.prepare(`
    SELECT sample FROM node_samples WHERE at_ms > ? AND kept_until_ms > ? ORDER BY at_ms, node`)
  const purges = [
    createPurge(db, 'node_samples', 'kept_until_ms'),
    createPurge(db, 'requests', 'kept_until_ms'),
    createPurge(db, 'request_batches', 'until_ms'),
    createPurge(db, 'console_sessions', 'expires_at_ms'),
    createPurge(db, 'console_marks', 'until_ms'),
  ]
  return {
    /** Deletes expired rows as well, so that transactions of calls need not look for them. */
    add({ node, atMs }, keepMs, sample) {
      const nowMs = now()
      for (const purge of purges) purge(nowMs, PURGE_ROWS)
      add.run(node, atMs, nowMs + keepMs, sample)
    },

    since: (atMs) => since.all(atMs, now()).map(({ sample }) => String(sample)),
  }
}

function createKeyUses(db: StateDatabase, now: () => number): Operations<KeyUses> {
  const note = db.prepare(`
    INSERT INTO key_uses (key_id, used_at_ms) VALUES (?, ?)
    ON CONFLICT (key_id) DO UPDATE SET used_at_ms = max(used_at_ms, excluded.used_at_ms)`)
  const read = db.prepare('SELECT used_at_ms FROM key_uses WHERE key_id = ?')
  return {
    note(uses) {
      const nowMs = now()
      for (const [keyId, usedAtMs] of Object.entries(uses)) note.run(keyId, Math.min(usedAtMs, nowMs))
    },

    read(keyIds) {
      const found = keyIds.map((keyId) => [keyId, read.get(keyId)?.used_at_ms] as const)
      return Object.fromEntries(found.filter((one): one is [string, number] => one[1] !== undefined))
    },
  }
}
