import { type Static, Type } from 'typebox'
import type { Entry, Principal } from '../../../contracts/catalog.ts'
import type { ServedCatalog } from '../../../contracts/catalog-service.ts'
import type { RecordFields } from '../../../contracts/catalog-store.ts'
import type { RequestRecord } from '../../../contracts/console.ts'
import type { GatewayError } from '../../../contracts/errors.ts'
import type { RecordedCall } from '../../../contracts/sample.ts'
import { nextTurn } from '../../../contracts/time.ts'
import { routeRecord } from '../../../gateway/admin/routes.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import type { Services } from '../../../gateway/call/context/services.ts'
import { priceFor } from '../../../gateway/call/facts/facts-for.ts'
import { meter, NOTHING_REPORTED, type ReportedUsage } from '../../../gateway/call/facts/meter.ts'
import { HEALTHY } from '../../../gateway/call/pipeline.ts'
import { recordedSample, sampleCall } from '../../../gateway/call/select/sample.ts'
import { select } from '../../../gateway/call/select/selection.ts'
import type { EntryName, ImpactAnswer, TrafficAnswer } from '../answers/routes.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import { catalogWith, withKey } from './explain.ts'
import { HISTORY_MS, type NodeHistory, TtlCache } from './node-history.ts'

const PATH = '/workspaces/:workspace/routes/:route'
const IMPACT = `${PATH}/impact` as const
/** Requests of the route that are judged. */
const REQUESTS_MAX = 1_000
/** Recorded requests of a workspace: its failed ones are kept beside as many others. */
const RECORDS_MAX = 2_000
/** Records are read once in this time, however often the draft is changed. */
const FRESH_MS = 2_000
/** How long requests are judged before calls have their turn. */
const TURN_MS = 5
/** Different reasons that are told. */
const REASONS_MAX = 20

const Body = Type.Object({
  fields: Type.Optional(
    Type.Object({}, { additionalProperties: true, description: 'the route as it is being edited' }),
  ),
})

type Call = ConsoleCall<typeof IMPACT, Static<typeof Body>, unknown>
type Records = TtlCache<string, readonly RequestRecord[]>

/** Measures a route's entries and its draft against its newest recorded requests. */
export function trafficEndpoints(context: ConsoleContext, history: NodeHistory): ConsoleRoute[] {
  const records: Records = new TtlCache(
    (workspace) => context.state.requests.list({ ...EVERY_REQUEST, workspace, limit: RECORDS_MAX }),
    FRESH_MS,
    context.clock,
  )
  return [
    consoleEndpoint(context, 'GET', `${PATH}/traffic`, {}, (call) => traffic(call, records)),
    consoleEndpoint(context, 'POST', IMPACT, { body: Body }, (call) => impact(call, records, history)),
  ]
}

/** Which entries served the recorded requests of the last hour. */
async function traffic(
  { context, params }: ConsoleCall<`${typeof PATH}/traffic`, unknown, unknown>,
  kept: Records,
): Promise<TrafficAnswer> {
  const { workspace, route } = params
  const fromMs = context.clock.wallNow() - HISTORY_MS
  const entries = new Map<string, Counted<TrafficAnswer['entries'][number]>>()
  let requests = 0
  for (const one of await kept.of(workspace)) {
    const served = one.attempts.at(-1)
    if (one.route !== route || one.atMs < fromMs || served?.reason !== 'ok' || hadNoProvider(one)) continue
    requests += 1
    const { provider, model } = served
    const id = entryId(served)
    entries.set(id, { provider, model, requests: (entries.get(id)?.requests ?? 0) + 1 })
  }
  return { window_ms: HISTORY_MS, requests, entries: [...entries.values()].sort(most) }
}

const EVERY_REQUEST = {
  ...{ outcome: null, path: null, app: null, keyId: null, jobId: null, requestId: null },
  ...{ beforeMs: null, afterMs: null },
}

/**
 * Tells what the newest recorded requests of a route would have done with its draft, or with the given fields: both
 * versions select for each of them as they would for a call, with all entries healthy. What a request came to is
 * metered anew from what its provider reported, at the prices of the entry that is selected first.
 */
async function impact(call: Call, kept: Records, history: NodeHistory): Promise<ImpactAnswer> {
  const { context, params, body } = call
  const { workspace, route } = params
  const record = routeRecord({ workspace, name: route })
  const sent = body.fields as RecordFields | undefined
  const fields = sent ?? (await context.admin.state.catalog.get(record))?.draft?.fields ?? null
  const tried = await catalogWith(call, record, fields)
  const [all, coverage] = await Promise.all([kept.of(workspace), history.coverage(workspace)])
  const own = all.filter((one) => one.route === route).slice(0, REQUESTS_MAX)
  const tally = new Tally()
  if ('issues' in tried) return tally.answer({ issues: tried.issues, coverage })
  const { clock, deps } = context
  const { services } = deps
  const published = new Version(context.catalog.good(), workspace, services)
  const draft = new Version(tried, workspace, services, published)
  let turnMs = clock.now()
  for (const one of own) {
    judge(one, published, draft, tally)
    if (clock.now() - turnMs < TURN_MS) continue
    await nextTurn()
    turnMs = clock.now()
  }
  return tally.answer({ issues: [], coverage })
}

/** Its answer was given before, or is speech that was made for another call. */
function hadNoProvider({ replayed, cache }: RequestRecord): boolean {
  return replayed || cache === 'hit'
}

function judge(record: RequestRecord, published: Version, draft: Version, tally: Tally): void {
  const { call } = record
  if (call === undefined) tally.leftOut.not_recorded += 1
  else if (hadNoProvider(record)) tally.leftOut.answered_without_provider += 1
  else {
    const before = published.judge(record, call)
    const after = draft.judge(record, call)
    if (before === null || after === null) tally.leftOut.app_gone += 1
    else tally.add(record, call, before, after)
  }
}

/** A version's decision on a request: the entry that is tried first, or a refusal. */
type Judgement =
  | { readonly entry: Entry; readonly refusal: null; readonly costMicros: number | null }
  | { readonly entry: null; readonly refusal: GatewayError; readonly costMicros: null }

type JudgingServices = Pick<Services, 'clock' | 'providers' | 'latency'>

/** A catalog with one version of the route. */
class Version {
  readonly #catalog: ServedCatalog
  readonly #workspace: string
  readonly #services: JudgingServices
  readonly #principals = new Map<string, Principal | null>()
  /** Entries in force by their names: past latencies are known of them. */
  readonly #known: ReadonlyMap<string, Entry>

  constructor(catalog: ServedCatalog, workspace: string, services: JudgingServices, inForce?: Version) {
    this.#catalog = catalog
    this.#workspace = workspace
    this.#services = services
    const entries = catalog.routes.flatMap((route) => route.entries)
    this.#known =
      inForce !== undefined
        ? inForce.#known
        : new Map(entries.map((entry) => [entryId(nameOf(entry)), entry]))
  }

  /** Null: its app is gone. */
  judge(record: RequestRecord, recorded: RecordedCall): Judgement | null {
    const principal = this.#principalOf(record.app)
    if (principal === null) return null
    const call = sampleCall(recorded.operation, recordedSample(recorded))
    const { providers, latency, clock } = this.#services
    const { selection, refusal } = select({
      principal,
      call,
      providers,
      random: drawsOf(record.recordId ?? record.id),
      latency: {
        medianMs: (entry, nowMs) => latency.medianMs(this.#known.get(entryId(nameOf(entry))) ?? entry, nowMs),
      },
      health: HEALTHY,
      nowMs: clock.now(),
    })
    if (selection === null) return { entry: null, refusal, costMicros: null }
    const entry = selection.candidates[0]!.entry
    if (record.usage === null) return { entry, refusal: null, costMicros: null }
    const { costUsd } = meter(call, reportedIn(record.usage), priceFor(entry, call), record.atMs)
    return { entry, refusal: null, costMicros: costUsd === null ? null : Math.round(costUsd * 1_000_000) }
  }

  #principalOf(app: string): Principal | null {
    const known = this.#principals.get(app)
    if (known !== undefined) return known
    const found = this.#catalog.snapshot.apps.get(this.#workspace)?.get(app)
    const principal = found === undefined ? null : withKey(found)
    this.#principals.set(app, principal)
    return principal
  }
}

/** The provider's own report of an answer, taken from its metered usage. */
function reportedIn(usage: NonNullable<RequestRecord['usage']>): ReportedUsage {
  const { audio_seconds, video_seconds, input_tokens, output_tokens = null, images, credits } = usage
  const tokens = input_tokens === undefined ? null : { input_tokens, output_tokens }
  return {
    ...NOTHING_REPORTED,
    seconds: audio_seconds ?? video_seconds ?? null,
    usage: tokens,
    images: images ?? null,
    credits: credits ?? null,
  }
}

/** Chance that is the same for both versions, and each time: what moves is moved by the draft. */
function drawsOf(text: string): () => number {
  let state = 2_166_136_261
  for (let at = 0; at < text.length; at++) state = Math.imul(state ^ text.charCodeAt(at), 16_777_619)
  // Mulberry32.
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const nameOf = ({ provider, model }: Entry): EntryName => ({ provider: provider.name, model })
const entryId = ({ provider, model }: EntryName) => JSON.stringify([provider, model])

type Counted<Value> = { -readonly [Name in keyof Value]: Value[Name] }

/** Counts of judged requests. */
class Tally {
  readonly leftOut: Counted<ImpactAnswer['left_out']> = {
    ...{ not_recorded: 0, app_gone: 0, answered_without_provider: 0 },
  }
  readonly #cost = { requests: 0, unknown: 0, published: 0, draft: 0 }
  readonly #entries = new Map<string, Counted<ImpactAnswer['entries'][number]>>()
  readonly #moves = new Map<string, Counted<ImpactAnswer['moves'][number]>>()
  readonly #reasons = new Map<string, Counted<ImpactAnswer['refused']['reasons'][number]>>()
  readonly #unrecorded = new Map<string, number>()
  readonly #refused = { published: 0, draft: 0, newly: 0 }
  #requests = 0
  #uncertain = 0
  #fromMs: number | null = null
  #toMs: number | null = null

  add(record: RequestRecord, { unrecorded = [] }: RecordedCall, before: Judgement, after: Judgement): void {
    this.#requests += 1
    this.#fromMs = Math.min(this.#fromMs ?? record.atMs, record.atMs)
    this.#toMs = Math.max(this.#toMs ?? record.atMs, record.atMs)
    this.#uncertain += Math.min(1, unrecorded.length)
    for (const field of unrecorded) this.#unrecorded.set(field, (this.#unrecorded.get(field) ?? 0) + 1)
    const [from, to] = [before, after].map(({ entry }) => entry && nameOf(entry)) as [
      EntryName | null,
      EntryName | null,
    ]
    this.#count(from, 'published')
    this.#count(to, 'draft')
    if (from !== null && to !== null && entryId(from) !== entryId(to)) {
      const id = `${entryId(from)} ${entryId(to)}`
      const move = this.#moves.get(id) ?? { from, to, requests: 0 }
      this.#moves.set(id, { ...move, requests: move.requests + 1 })
    }
    this.#refuse(before, after)
    this.#price(before, after)
  }

  #count(name: EntryName | null, version: 'published' | 'draft'): void {
    if (name === null) return
    const id = entryId(name)
    const known = this.#entries.get(id) ?? { ...name, published: 0, draft: 0 }
    known[version] += 1
    this.#entries.set(id, known)
  }

  #refuse(before: Judgement, after: Judgement): void {
    if (before.refusal !== null) this.#refused.published += 1
    if (after.refusal === null) return
    this.#refused.draft += 1
    if (before.refusal !== null) return
    this.#refused.newly += 1
    const { code, message } = after.refusal
    const id = `${code} ${message}`
    const known = this.#reasons.get(id)
    if (known !== undefined) known.requests += 1
    else if (this.#reasons.size < REASONS_MAX) this.#reasons.set(id, { code, message, requests: 1 })
  }

  #price(before: Judgement, after: Judgement): void {
    if (before.entry === null || after.entry === null) return
    if (before.costMicros === null || after.costMicros === null) this.#cost.unknown += 1
    else {
      this.#cost.requests += 1
      this.#cost.published += before.costMicros
      this.#cost.draft += after.costMicros
    }
  }

  answer({ issues, coverage }: Pick<ImpactAnswer, 'issues' | 'coverage'>): ImpactAnswer {
    const { requests, unknown, published, draft } = this.#cost
    return {
      issues,
      requests: this.#requests,
      from: timestamp(this.#fromMs),
      to: timestamp(this.#toMs),
      coverage,
      left_out: this.leftOut,
      entries: [...this.#entries.values()].sort((a, b) => b.draft - a.draft || b.published - a.published),
      moves: [...this.#moves.values()].sort(most),
      refused: { ...this.#refused, reasons: [...this.#reasons.values()].sort(most) },
      cost: {
        requests,
        unknown,
        published_usd: published / 1_000_000,
        draft_usd: draft / 1_000_000,
      },
      uncertain: this.#uncertain,
      unrecorded: [...this.#unrecorded].map(([field, count]) => ({ field, requests: count })).sort(most),
    }
  }
}

const most = (one: { readonly requests: number }, other: { readonly requests: number }) =>
  other.requests - one.requests
