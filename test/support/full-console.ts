import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import type { CallsSample } from '../../src/contracts/console.ts'
import { firstJobId, newId } from '../../src/contracts/ids.ts'
import { hashFields } from '../../src/contracts/json.ts'
import type { State } from '../../src/contracts/state.ts'
import { hashKey, makeKey, newKey } from '../../src/gateway/catalog/key.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { CompactionRounds } from '../../src/usage/compactor.ts'
import { SegmentEncoder, type UsageRow } from '../../src/usage/encoder.ts'
import type { UsageLake } from '../../src/usage/lake.ts'
import { emptyRow } from '../../src/usage/record-row.ts'
import { nodeSample, requestRecord } from './console-record.ts'
import { Dice } from './dice.ts'
import { specOf } from './jobs-under-test.ts'
import { files, lakeOf, putFile, rollSegment } from './usage-lake.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAYS = 30
/** Files of the newest time are as nodes have put them, one a minute; older ones are merged. */
const FRESH_MS = 2 * HOUR_MS
const SEGMENT_RECORDS = 170_000
const FRAME_BYTES = 1024 * 1024
const OTHER_WORKSPACES = 49
const APPS = 200
const END_USERS = 20_000
const STEP_MS = 5_000
const KEPT_REQUESTS = 1_000
const JOBS = 2_000
const FACTS = 'full-console.json'

const PROVIDERS = ['alto', 'bass', 'cello', 'drum', 'flute', 'harp', 'lute', 'oboe', 'piano', 'tuba', 'viola']
/** The one that fails when it is told to. */
export const FAILING = 'zither'
const ALL_PROVIDERS = [...PROVIDERS, FAILING]

const OPERATIONS = [
  { operation: 'chat', endpoint: 'POST /v1/chat' },
  { operation: 'transcription', endpoint: 'POST /v1/transcription' },
  { operation: 'speech', endpoint: 'POST /v1/speech' },
] as const

const FAILURES = [
  { outcome: 'error', status: 502, error_code: 'UPSTREAM_ERROR' },
  { outcome: 'error', status: 504, error_code: 'UPSTREAM_TIMEOUT' },
  { outcome: 'error', status: 400, error_code: 'INVALID_REQUEST' },
  { outcome: 'error', status: 429, error_code: 'RATE_LIMITED' },
] as const

export interface FullSize {
  readonly records: number
  /** All of the workspace `acme`, as are the routes. */
  readonly keys: number
  readonly routes: number
}

/** Content of a filled folder. */
export interface FullConsole extends FullSize {
  readonly operator: string
  readonly admin: string
  /** Keys of calls, of apps whose routes begin with the provider that may fail. */
  readonly callers: readonly string[]
  readonly route: string
  readonly keyName: string
  /** Id of a record from the middle of the time. */
  readonly requestId: string
  readonly traceId: string
  readonly endUser: string
  /** Seconds that it took. */
  readonly seconds: number
}

/**
 * The data folder of a node whose workspace `acme` has many keys, routes and a month of calls up to now, beside 49
 * small workspaces. A folder that has them already is taken as it is; the newest hour is always made anew.
 */
export async function fillConsole(folder: string, size: FullSize): Promise<FullConsole> {
  const known = await readFacts(folder)
  const isSame = known?.records === size.records && known.keys === size.keys && known.routes === size.routes
  const facts = isSame ? known : await fill(folder, size)
  const state = await openState(folder)
  await addNewest(state)
  await state.close()
  return facts
}

async function readFacts(folder: string): Promise<FullConsole | null> {
  const text = await readFile(join(folder, FACTS), 'utf8').catch(() => null)
  return text === null ? null : (JSON.parse(text) as FullConsole)
}

async function fill(folder: string, size: FullSize): Promise<FullConsole> {
  const beganMs = performance.now()
  const objects = await createFileObjects(folder)
  const state = await openState(folder)
  const keys = await addKeys(state, size.keys)
  await addCatalog(state, size.routes)
  for (let job = 0; job < JOBS; job += 1)
    await state.jobs.submit({ spec: specOf('acme', { app: appName(job), keyId: keys[0]!.id }), slot: null })
  await state.close()
  const ids = keys.map(({ id }) => id)
  const found = await writeRecords(lakeOf(objects), { ...size, ids, toMs: Date.now() })
  await objects.close()
  const facts = {
    ...size,
    operator: makeKey(),
    admin: makeKey(),
    callers: keys.slice(0, 20).map(({ plain }) => plain),
    route: routeName(0),
    keyName: keys.at(-1)!.name,
    ...found,
    seconds: Math.round((performance.now() - beganMs) / 1_000),
  }
  await writeFile(join(folder, FACTS), JSON.stringify(facts))
  return facts
}

function openState(folder: string): Promise<State> {
  return openEmbeddedState({ file: join(folder, 'state.sqlite'), log: pino({ level: 'silent' }) })
}

const appName = (number: number) => `app-${String(number % APPS).padStart(3, '0')}`
const routeName = (number: number) => `acme.route-${String(number).padStart(3, '0')}`
/** The provider of a route: the first of them have the one that may fail. */
const providerOf = (number: number) => ALL_PROVIDERS.at(-1 - (number % ALL_PROVIDERS.length))!

async function addKeys(state: State, count: number) {
  const keys: { readonly id: string; readonly plain: string; readonly name: string }[] = []
  const settings = { workspace: 'acme', scopes: ['inference', 'jobs'], expiresAtMs: null } as const
  const open = { rateLimit: null, budgetMicros: null }
  const nowMs = Date.now()
  for (let number = 0; number < count; number += 1) {
    const name = `service ${String(number).padStart(4, '0')}`
    // The first ones call the routes that may fail.
    const app = appName(number < 20 ? 0 : number)
    const made = newKey({ ...settings, ...open, app, name }, nowMs - (count - number) * MINUTE_MS)
    await state.keys.create(made.stored)
    keys.push({ id: made.stored.id, plain: made.plain, name })
  }
  return keys
}

/** Publishes routes and apps, each with its line on the audit list. */
async function addCatalog(state: State, routes: number): Promise<void> {
  const by = { via: 'console', keyId: 'key_operator', name: 'operator' } as const
  const publish = async (kind: 'route' | 'app', name: string, fields: Readonly<Record<string, unknown>>) => {
    const record = { kind, workspace: 'acme', name }
    const hash = hashFields(fields)
    await state.catalog.change({
      token: `${kind} ${name}`,
      expected: null,
      steps: [{ do: 'publish', record, fields, hash, note: null }],
      by,
      audit: [
        {
          ...{ by, action: `${kind}.publish`, workspace: 'acme', target: `${kind}/${name}` },
          ...{ before: null, after: hash, detail: null },
        },
      ],
    })
  }
  for (let number = 0; number < routes; number += 1) {
    const entries = [providerOf(number), providerOf(number + 1)].map((provider) => ({
      provider,
      model: 'morse-1',
    }))
    // A fifth has nothing to fall back on.
    await publish('route', routeName(number), {
      workspace: 'acme',
      entries: number % 5 === 0 ? entries.slice(0, 1) : entries,
    })
  }
  for (let number = 0; number < APPS; number += 1)
    await publish('app', appName(number), { route: routeName(number % routes) })
}

interface RecordsOptions extends FullSize {
  /** Ids of the keys of `acme`. */
  readonly ids: readonly string[]
  readonly toMs: number
}

type Found = Pick<FullConsole, 'requestId' | 'traceId' | 'endUser'>

/** Puts the records of a month as nodes would have, and merges those that are older than two hours. */
async function writeRecords(lake: UsageLake, options: RecordsOptions): Promise<Found> {
  const { records, toMs } = options
  const spanMs = DAYS * 24 * HOUR_MS
  const freshFrom = Math.floor(records * (1 - FRESH_MS / spanMs))
  const perMinute = Math.max(1, Math.ceil(records / (spanMs / MINUTE_MS)))
  const rows = new Rows(options)
  let found: Found | null = null
  const endedAtMs = (at: number) => Math.floor(toMs - spanMs + ((at + 1) / records) * (spanMs - MINUTE_MS))
  const put = async (from: number, to: number) => {
    const fromMs = endedAtMs(from)
    const id = timedId('seg', fromMs)
    const encoder = new SegmentEncoder({ id, openedAtMs: fromMs })
    const parts: Buffer[] = []
    for (let at = from; at < to; at += 1) {
      const row = rows.next(endedAtMs(at))
      if (at >= records / 2 && row.end_user !== null)
        found ??= { requestId: row.request_id, traceId: row.trace_id!, endUser: row.end_user }
      encoder.add(row)
      if (encoder.bytes > FRAME_BYTES) parts.push(Buffer.from(encoder.take()))
    }
    for (const { date, file } of await rollSegment(Buffer.concat([...parts, encoder.take()])))
      await putFile(lake, date, id, file)
  }
  // No node has one open for longer than half a day.
  const most = Math.min(SEGMENT_RECORDS, Math.ceil(records / (2 * DAYS)))
  for (let at = 0; at < freshFrom; at += most) await put(at, Math.min(freshFrom, at + most))
  await mergeAll(lake)
  for (let at = freshFrom; at < records; at += perMinute) await put(at, Math.min(records, at + perMinute))
  if (found === null) throw new Error('no record has an end user')
  return found
}

async function mergeAll(lake: UsageLake): Promise<void> {
  await new CompactionRounds({
    ...{ lake, files, log: pino({ level: 'silent' }), graceMs: 0, now: () => Date.now() + FRESH_MS },
    permits: { take: async () => ({ lease: { release() {} } }) },
    healthy: async () => true,
    retention: () => ({ days: 10_000, byWorkspace: new Map() }),
  }).run()
}

/** An identifier as one that was made at a moment. */
function timedId(prefix: 'req' | 'seg', atMs: number): string {
  return `${prefix}_${firstJobId('tj', atMs).slice('tj_'.length)}${newId(prefix).slice(-16)}`
}

/** Rows of calls: some keys call far more than others, and a fifth of the calls is of the other workspaces. */
class Rows {
  readonly #dice = new Dice(5)
  readonly #row = emptyRow('node-1')
  readonly #ids: readonly string[]
  readonly #routes: number

  constructor({ ids, routes }: RecordsOptions) {
    this.#ids = ids
    this.#routes = routes
  }

  next(endedAtMs: number): UsageRow {
    const [dice, row] = [this.#dice, this.#row]
    const key = Math.floor(dice.roll() * dice.roll() * this.#ids.length)
    const other = dice.below(5) === 0 ? dice.below(OTHER_WORKSPACES) : null
    const app = key < 20 ? 0 : key % APPS
    const call = OPERATIONS[app % OPERATIONS.length]!
    const isSecond = dice.below(8) === 0
    const provider = providerOf((app % this.#routes) + Number(isSecond))
    const failure = dice.below(25) === 0 ? dice.one(FAILURES) : null
    row.request_id = timedId('req', endedAtMs)
    row.trace_id = dice
      .below(2 ** 32)
      .toString(16)
      .padStart(32, '0')
    row.workspace = other === null ? 'acme' : `team-${other}`
    row.app = other === null ? appName(app) : 'web'
    row.key_id = other === null ? this.#ids[key]! : `key_team-${other}`
    row.end_user = dice.below(2) === 0 ? null : `user-${dice.below(END_USERS)}`
    row.endpoint = call.endpoint
    row.operation = call.operation
    row.route = other === null ? routeName(app % this.#routes) : `team-${other}`
    row.provider = provider
    row.model = `${provider}-${1 + (app % 2)}`
    row.attempts = isSecond ? 2 : 1
    row.outcome = failure?.outcome ?? 'ok'
    row.status = failure?.status ?? 200
    row.error_code = failure?.error_code ?? null
    row.total_ms = 50 + dice.below(4_000)
    row.ended_at = endedAtMs
    row.started_at = endedAtMs - row.total_ms
    row.upstream_ms = row.total_ms - 1
    row.received_bytes = 200 + dice.below(10_000)
    row.sent_bytes = 300 + dice.below(3_000)
    row.cost_usd = failure === null ? dice.below(20_000) : null
    const isChat = call.operation === 'chat'
    row.input_tokens = isChat ? dice.below(4_000) : null
    row.output_tokens = isChat ? dice.below(800) : null
    row.first_ms = isChat ? dice.below(row.total_ms) : null
    row.audio_seconds = call.operation === 'transcription' ? dice.below(180_000) : null
    row.characters = call.operation === 'speech' ? dice.below(900) : null
    return row
  }
}

/** Samples of two nodes over the last hour, and their recorded requests. */
async function addNewest(state: State): Promise<void> {
  const { samples, requests } = state.console
  const dice = new Dice(6)
  const nowMs = Math.floor(Date.now() / STEP_MS) * STEP_MS
  for (let atMs = nowMs - HOUR_MS + STEP_MS; atMs <= nowMs; atMs += STEP_MS)
    for (const node of ['node-1', 'node-2']) {
      // Ten million calls a month are some 20 in each step.
      const some = Array.from({ length: 4 }, (_, at) => `team-${4 * at + dice.below(4)}`)
      const workspaces = ['acme', ...some].map((workspace) => ({
        workspace,
        ...callsSample(dice, workspace === 'acme' ? ALL_PROVIDERS : PROVIDERS.slice(0, 1)),
      }))
      const all = callsSample(dice, ALL_PROVIDERS)
      await samples.add(nodeSample(node, atMs, { breakers: [], all, workspaces }), HOUR_MS)
    }
  const records = Array.from({ length: 2 * KEPT_REQUESTS }, (_, at) => {
    const isFailed = at % 2 === 0
    const failed = { status: 502, error: 'UPSTREAM_ERROR' as const }
    return requestRecord('acme', {
      ...{ atMs: nowMs - at * 1_000, app: appName(at), route: routeName(0) },
      ...(isFailed ? failed : {}),
    })
  })
  await requests.add(newId('rec'), records)
}

export function otherWorkspaces(): string[] {
  return Array.from({ length: OTHER_WORKSPACES }, (_, at) => `team-${at}`)
}

function callsSample(dice: Dice, providers: readonly string[]): CallsSample {
  const upstream = providers.map((provider) => {
    const calls = dice.below(4)
    const times = { p50Ms: 100 + dice.below(50), p95Ms: 300 + dice.below(200) }
    const models = ['1', '2'].map((model) => ({
      ...{ model: `${provider}-${model}`, calls: Math.floor(calls / 2), failed: 0, p95Ms: times.p95Ms },
      lastFailure: null,
    }))
    return { provider, calls, failed: 0, ...times, models }
  })
  const requests = upstream.reduce((sum, { calls }) => sum + calls, 0)
  const errors = { errors: dice.below(3), serverErrors: 0, recorded: requests, failuresDropped: 0 }
  return { requests, ...errors, addedP50Ms: 0.4, addedP95Ms: 1.2, upstream }
}

/** The configuration file of a node with such a folder. @param addresses of the providers, and of the one that fails */
export function fullConfiguration(
  { operator, admin }: Pick<FullConsole, 'operator' | 'admin'>,
  addresses: { readonly healthy: string; readonly failing: string },
): object {
  const key = (id: string, plain: string, scopes: readonly string[]) => {
    return { id, name: id, app: 'web', sha256: hashKey(plain), scopes }
  }
  const provider = (base_url: string) => ({
    ...{ kind: 'sandbox', base_url, access: 'platform', capabilities: ['audio_input', 'audio_output'] },
    price: { per_hour_usd: 1, per_1k_characters_usd: 1 },
  })
  const plain = (workspace: string) => [
    workspace,
    { workspace, entries: [{ provider: 'alto', model: 'morse-1' }] },
  ]
  const names = ['home', 'acme', ...otherWorkspaces()]
  return {
    rate_limit: { requests_per_minute: 600_000, burst: 10_000 },
    providers: {
      ...Object.fromEntries(PROVIDERS.map((name) => [name, provider(addresses.healthy)])),
      [FAILING]: provider(addresses.failing),
    },
    routes: Object.fromEntries(names.map(plain)),
    workspaces: Object.fromEntries(
      names.map((name) => [
        name,
        {
          apps: { web: { route: name } },
          ...(name === 'home' ? { keys: [key('key_operator', operator, ['operator'])] } : {}),
          ...(name === 'acme'
            ? { keys: [key('key_admin', admin, ['admin'])], credits_usd: 1_000, grant_id: 'first' }
            : {}),
          ...(name.startsWith('team-') ? { keys: [key(`key_${name}`, makeKey(), ['inference'])] } : {}),
        },
      ]),
    ),
  }
}
