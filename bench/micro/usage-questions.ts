import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { askSql } from '../../src/cli/usage-sql.ts'
import { newId } from '../../src/contracts/ids.ts'
import { createLogger } from '../../src/contracts/log.ts'
import { systemClock } from '../../src/contracts/time.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import type { UsageQuestion } from '../../src/usage/answer.ts'
import { CompactionRounds } from '../../src/usage/compactor.ts'
import { SegmentEncoder } from '../../src/usage/encoder.ts'
import { DAY_MS, dateMs, HOUR_MS } from '../../src/usage/names.ts'
import { emptyRow } from '../../src/usage/record-row.ts'
import { engine, files, lakeOf, putFile, readerOf, rollSegment } from '../../test/support/usage-lake.ts'

/**
 * Ten questions of usage, answered by the ledger and in SQL: how long, in how much memory, and how long the loop of the
 * process that asks stands still. Records are of 5,000 keys, of which some call
 * far more than others. `node bench/micro/usage-questions.ts [records] [days]`
 */

const [RECORDS = 1_000_000, DAYS = 30] = process.argv.slice(2, 4).map(Number)
const [, , , , step, folder = ''] = process.argv
const KEYS = 5_000
const SEGMENT_RECORDS = 170_000
const FROM_MS = dateMs('2026-10-01')
const TO_MS = FROM_MS + DAYS * DAY_MS
const MODELS = ['gpt-5-mini', 'gpt-5', 'nova-3', 'eleven-v3', 'claude-haiku', 'voxtral-mini']
const WORKSPACE = 'workspace-7'

const QUESTIONS: readonly (Partial<UsageQuestion> & { readonly sql: string })[] = [
  { by: ['workspace'], sql: 'SELECT workspace, sum(cost_usd), count(*) FROM usage GROUP BY ALL' },
  { step: 'day', sql: 'SELECT date, sum(cost_usd), count(*) FROM usage GROUP BY ALL ORDER BY ALL' },
  {
    by: ['app'],
    sql: 'SELECT app, sum(cost_usd) AS cost FROM usage GROUP BY ALL ORDER BY cost DESC LIMIT 100',
  },
  {
    by: ['key_id'],
    sql: 'SELECT key_id, sum(cost_usd) AS cost FROM usage GROUP BY ALL ORDER BY cost DESC LIMIT 100',
  },
  {
    ...{ by: ['provider', 'model'], step: 'day' },
    sql: 'SELECT date, provider, model, sum(cost_usd), sum(input_tokens) FROM usage GROUP BY ALL',
  },
  {
    ...{ by: ['provider', 'error_code'], where: { outcome: ['error'] }, sort: 'errors' },
    sql: `SELECT provider, error_code, min(started_at), count(*), count(DISTINCT key_id) FROM usage
      WHERE outcome = 'error' GROUP BY ALL`,
  },
  {
    ...{ by: ['status'], step: 'hour', fromMs: TO_MS - DAY_MS },
    sql: `SELECT date_trunc('hour', ended_at), status, count(*) FROM usage
      WHERE date >= '${new Date(TO_MS - DAY_MS).toISOString().slice(0, 10)}' GROUP BY ALL`,
  },
  {
    ...{ by: ['key_id'], step: 'day', where: { workspace: [WORKSPACE] } },
    sql: `SELECT date, key_id, sum(cost_usd) FROM usage WHERE workspace = '${WORKSPACE}' GROUP BY ALL`,
  },
  {
    ...{ by: ['end_user'], where: { workspace: [WORKSPACE] } },
    sql: `SELECT end_user, sum(cost_usd) AS cost FROM usage WHERE workspace = '${WORKSPACE}'
      GROUP BY ALL ORDER BY cost DESC LIMIT 100`,
  },
  {
    by: ['operation', 'outcome'],
    sql: 'SELECT operation, outcome, count(*), quantile_cont(total_ms, 0.95) FROM usage GROUP BY ALL',
  },
]

/** Whole numbers below `most`, the same each time. */
function dice(seed: number) {
  let state = seed
  return (most: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * most)
  }
}

async function make(): Promise<void> {
  const objects = await createFileObjects(folder)
  const lake = lakeOf(objects)
  const roll = dice(1)
  const row = emptyRow('bench')
  let bytes = 0
  for (let written = 0; written < RECORDS; written += SEGMENT_RECORDS) {
    const id = newId('seg')
    const encoder = new SegmentEncoder({ id, openedAtMs: FROM_MS })
    const parts: Buffer[] = []
    for (let at = written; at < Math.min(RECORDS, written + SEGMENT_RECORDS); at += 1) {
      const key = Math.floor((roll(KEYS) * roll(KEYS)) / KEYS)
      const model = (key + (roll(8) === 0 ? 1 : 0)) % MODELS.length
      const isError = roll(25) === 0
      row.request_id = newId('req')
      row.workspace = `workspace-${key % 50}`
      row.app = `app-${key % 500}`
      row.key_id = `key_${key}`
      row.end_user = roll(2) === 0 ? null : `user-${roll(2_000)}`
      row.endpoint = 'POST /v1/chat'
      row.operation = 'chat'
      row.route = `route-${key % 20}`
      row.provider = `provider-${model % 4}`
      row.model = MODELS[model]!
      row.attempts = 1
      row.outcome = isError ? 'error' : 'ok'
      row.status = isError ? 502 : 200
      row.error_code = isError ? 'UPSTREAM_ERROR' : null
      row.total_ms = 50 + roll(4_000)
      row.ended_at = FROM_MS + Math.floor((at / RECORDS) * (TO_MS - FROM_MS))
      row.started_at = row.ended_at - row.total_ms
      row.input_tokens = roll(4_000)
      row.output_tokens = roll(800)
      row.cost_usd = isError ? 0 : roll(20_000)
      row.received_bytes = 200 + roll(10_000)
      row.sent_bytes = 300 + roll(3_000)
      row.upstream_ms = row.total_ms - 1
      encoder.add(row)
      if (encoder.bytes > 1024 * 1024) parts.push(Buffer.from(encoder.take()))
    }
    for (const { date, file } of await rollSegment(Buffer.concat([...parts, encoder.take()])))
      await putFile(lake, date, id, file)
  }
  const startedMs = performance.now()
  await new CompactionRounds({
    ...{
      lake,
      files,
      log: createLogger('silent'),
      graceMs: 0,
      clock: { ...systemClock, wallNow: () => Date.now() + 2 * HOUR_MS },
    },
    permits: { take: async () => ({ lease: { release() {} } }) },
    healthy: async () => true,
    retention: () => ({ days: 10_000, byWorkspace: new Map() }),
  }).run()
  const seconds = (performance.now() - startedMs) / 1_000
  const found = await lake.files(FROM_MS, TO_MS)
  for (const file of found) bytes += file.bytes
  const each = (bytes / RECORDS).toFixed(1)
  await engine.close()
  say(`${found.length} files, ${each} bytes a record; merged in ${seconds.toFixed(1)} s`)
  await objects.close()
}

async function ask(): Promise<void> {
  const objects = await createFileObjects(folder)
  const reader = readerOf(lakeOf(objects))
  for (const round of ['at first', 'again'])
    for (const [at, { sql, ...asked }] of QUESTIONS.entries()) {
      const usual = { step: 'none', by: [], where: {}, sort: 'cost_usd', offset: 0, limit: 100 } as const
      const delay = monitorEventLoopDelay({ resolution: 1 })
      delay.enable()
      const startedMs = performance.now()
      const { groups } = await reader.ask({ ...usual, fromMs: FROM_MS, toMs: TO_MS, ...asked })
      const ms = performance.now() - startedMs
      // A delay of the loop until now is seen with its next turns.
      await sleep(5)
      delay.disable()
      say(
        `${step}, ${round}, ${at + 1}: ${ms.toFixed(0)} ms, loop ${(delay.max / 1e6).toFixed(0)} ms, ${groups} groups`,
      )
    }
  await engine.close()
  await objects.close()
}

async function askInSql(): Promise<void> {
  const objects = await createFileObjects(folder)
  for (const [at, { sql }] of QUESTIONS.entries()) {
    const startedMs = performance.now()
    const { rows } = await askSql(sql, { lake: lakeOf(objects), engine, fromMs: FROM_MS, toMs: TO_MS })
    say(`sql, ${at + 1}: ${(performance.now() - startedMs).toFixed(0)} ms, ${rows.length} rows`)
  }
  await engine.close()
  await objects.close()
}

function say(sentence: string): void {
  process.stdout.write(`${sentence}\n`)
}

const STEPS = { make, ask, sql: askInSql }
if (step !== undefined) {
  await STEPS[step as keyof typeof STEPS]()
  say(`${step}: ${Math.round(process.resourceUsage().maxRSS / 1024)} MiB`)
} else {
  // Each in a process of its own, whose memory is told.
  const root = mkdtempSync(join(tmpdir(), 'larkway-questions-'))
  try {
    for (const name of Object.keys(STEPS)) {
      const args = [import.meta.filename, String(RECORDS), String(DAYS), name, root]
      spawnSync(process.execPath, ['--no-warnings', ...args], { stdio: 'inherit' })
    }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}
