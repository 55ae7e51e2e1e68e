import { failureCode } from '../contracts/call-facts.ts'
import type { GatewayError } from '../contracts/errors.ts'
import type { AbandonedJob } from '../contracts/jobs.ts'
import type { LostMoney } from '../contracts/ledger.ts'
import type { SessionFacts } from '../contracts/live.ts'
import type {
  EndedCall,
  EndedExchange,
  EndedRouting,
  EndingRun,
  OpenCall,
  RecordedJob,
} from '../contracts/recorder.ts'
import type { Clock } from '../contracts/time.ts'
import type { CallEndpoints } from './call-endpoints.ts'
import type { UsageRow } from './encoder.ts'

/** Attempts whose reasons are recorded: a session may have any number. */
const REASONS_MAX = 20
const MICROS = 1_000_000

/**
 * The row of the record that is written next. There is one for all records, filled anew for each: whoever is handed it
 * reads it at once.
 */
export class RecordRow {
  readonly row: UsageRow
  readonly #endpoints: CallEndpoints
  readonly #paramOf: (failure: GatewayError) => string | null
  readonly #clock: Clock
  /** The reasons that came last of one attempt. */
  #lastReason = { provider: '', model: '', reason: '', text: '' }

  /**
   * @param node of this process
   * @param paramOf the documented field that an error names; null: it names none
   */
  constructor(
    node: string,
    endpoints: CallEndpoints,
    paramOf: (failure: GatewayError) => string | null,
    clock: Clock,
  ) {
    this.row = emptyRow(node)
    this.#endpoints = endpoints
    this.#paramOf = paramOf
    this.#clock = clock
  }

  /** A call or a live session. @param endedAtMs epoch milliseconds */
  fill(exchange: EndedExchange, call: EndedCall, endedAtMs: number, elapsedMs: number): void {
    const row = this.row
    const { status, bodyMs, firstByteMs } = exchange
    const error = failureCode(exchange, call)
    this.#fillCall(call)
    row.record_id = call.sessionId ?? ''
    row.kind = call.sessionId === null ? 'call' : 'session'
    row.request_id = exchange.requestId
    row.job_id = null
    row.total_ms = Math.round(elapsedMs)
    row.ended_at = endedAtMs
    row.started_at = endedAtMs - row.total_ms
    row.endpoint = this.#endpoints.of(exchange).text
    row.outcome = error === undefined ? 'ok' : error === 'CLIENT_CLOSED' ? 'left' : 'error'
    row.status = status
    row.error_code = error ?? null
    row.received_bytes = exchange.receivedBytes
    row.sent_bytes = exchange.sentBytes
    row.body_ms = bodyMs === 0 ? null : Math.round(bodyMs)
    row.first_ms = firstByteMs === null ? null : Math.round(firstByteMs)
  }

  /** The record that a session has if this process dies now. */
  fillOpen(call: OpenCall, facts: (() => SessionFacts) | null): void {
    const exchange = call.exchange as EndedExchange
    const row = this.row
    this.fill(exchange, call, this.#clock.wallNow(), exchange.elapsedMs)
    // That of its handshake, which may be on its way.
    row.status ??= 101
    if (facts !== null) {
      const { audio_seconds, characters } = facts()
      row.outcome = 'error'
      row.error_code = 'INTERNAL'
      row.audio_seconds = thousandths(audio_seconds)
      row.characters = whole(characters)
    }
    // Whoever settles its money when its node has died knows better.
    row.cost_usd = whole(call.money.chargedMicros + call.money.accruedMicros)
    row.estimated = true
  }

  /** A run of a job. */
  fillRun(job: RecordedJob, call: EndedCall, { became, chargedMicros }: EndingRun): void {
    const row = this.row
    this.#fillCall(call)
    this.#fillJob(job)
    row.outcome = became === 'cancelled' ? 'canceled' : call.failure === null ? 'ok' : 'error'
    row.status = null
    row.error_code = call.failure?.code ?? null
    if (chargedMicros > 0) row.cost_usd = whole(chargedMicros)
    row.received_bytes = 0
    row.sent_bytes = 0
    row.body_ms = null
    row.first_ms = null
  }

  /** A job that has ended without a worker. */
  fillAbandoned({ job, chargedMicros }: AbandonedJob): void {
    const row = this.row
    Object.assign(row, emptyRow(row.node))
    this.#fillJob(job)
    row.end_user = job.endUser ?? null
    row.operation = job.work.operation
    row.policy_version_id = job.facts?.policy_version_id ?? null
    row.outcome = job.status === 'cancelled' ? 'canceled' : 'error'
    row.error_code = job.error?.code ?? null
    row.cost_usd = whole(chargedMicros)
  }

  /** Money of a dead node that was charged by estimates. @param app empty: it is not known any more */
  fillLost(workspace: string, app: string, { token, keyId, spendMicros, atMs }: LostMoney): void {
    const row = this.row
    Object.assign(row, emptyRow(row.node))
    row.record_id = `lost_${token}`
    row.kind = 'lease_expired'
    row.request_id = row.record_id
    row.started_at = atMs
    row.ended_at = atMs
    Object.assign(row, { workspace, app, key_id: keyId })
    row.outcome = 'error'
    row.error_code = 'INTERNAL'
    row.cost_usd = whole(spendMicros)
    row.estimated = true
  }

  /** Fills the columns that every ended job has. */
  #fillJob(job: RecordedJob): void {
    const row = this.row
    row.record_id = job.id
    row.kind = 'job'
    row.request_id = job.requestId
    row.job_id = job.id
    row.ended_at = this.#clock.wallNow()
    row.started_at = Math.min(job.createdAtMs, row.ended_at)
    row.total_ms = row.ended_at - row.started_at
    row.workspace = job.workspace
    row.app = job.app
    row.key_id = job.keyId
    row.endpoint = job.endpoint
  }

  /** Fills the columns that a call and a run of a job have in common. */
  #fillCall(call: EndedCall): void {
    const row = this.row
    const { principal, failure } = call
    const { attempts, purpose } = call.routing
    const last = attempts.length === 0 ? null : attempts[attempts.length - 1]!
    row.session_id = call.sessionId
    row.trace_id = call.traceId
    row.workspace = principal === null ? '' : principal.workspace.id
    row.app = principal === null ? '' : principal.app.id
    row.key_id = principal === null ? '' : principal.key.id
    row.end_user = call.keptEndUser
    row.purpose = purpose !== null && call.routing.forPurpose ? purpose.requested : null
    row.operation = call.operation
    row.route = call.routing.route
    row.policy_version_id = call.routing.policyVersionId
    row.provider = last === null ? null : last.provider
    row.model = last === null ? null : last.model
    row.region = last === null ? null : (last.region ?? null)
    row.attempts = attempts.length
    row.attempt_reasons = last === null ? null : this.#reasonsOf(attempts)
    row.error_param = failure === null ? null : this.#paramOf(failure)
    row.replayed = call.answer.replayed
    row.cache = call.answer.cache
    row.upstream_ms = call.upstreamWaitMs === 0 ? null : Math.round(call.upstreamWaitMs)
    this.#fillUsage(call)
  }

  #fillUsage(call: EndedCall): void {
    const row = this.row
    const { money } = call
    const { estimated } = money
    const { usage, costUsd } = estimated ?? money
    row.audio_seconds = thousandths(usage?.audio_seconds)
    row.billable_audio_seconds = thousandths(usage?.billable_audio_seconds)
    row.video_seconds = thousandths(usage?.video_seconds)
    row.input_tokens = whole(usage?.input_tokens)
    row.output_tokens = whole(usage?.output_tokens)
    row.characters = whole(usage?.audio_output_characters)
    row.images = whole(usage?.images)
    row.credits = whole(usage?.credits)
    const charged = money.chargedMicros
    // A model without a known price is charged by an estimate.
    row.estimated = estimated !== null || (charged > 0 && costUsd === null)
    row.cost_usd =
      charged > 0 ? whole(charged) : costUsd !== null ? whole(costUsd * MICROS) : usage === null ? 0 : null
  }

  #reasonsOf(attempts: EndedRouting['attempts']): string {
    const [first] = attempts
    if (attempts.length > 1 || first === undefined)
      return attempts
        .slice(0, REASONS_MAX)
        .map(({ provider, model, reason }) => attemptReason(provider, model, reason))
        .join(',')
    const { provider, model, reason } = first
    const last = this.#lastReason
    if (last.provider === provider && last.model === model && last.reason === reason) return last.text
    const text = attemptReason(provider, model, reason)
    this.#lastReason = { provider, model, reason, text }
    return text
  }
}

function attemptReason(provider: string, model: string, reason: string): string {
  return `${provider}/${model}=${reason}`.replaceAll(',', ';')
}

/** Whole, and never more than a segment can hold, whatever a price or a provider comes to. */
function whole(value: number | null | undefined): number | null {
  return value === undefined || value === null ? null : Math.min(Math.round(value), Number.MAX_SAFE_INTEGER)
}

function thousandths(seconds: number | null | undefined): number | null {
  return whole(seconds == null ? seconds : seconds * 1_000)
}

/** A row that says nothing but who wrote it. */
export function emptyRow(node: string): UsageRow {
  return {
    record_id: '',
    kind: 'call',
    request_id: '',
    job_id: null,
    session_id: null,
    trace_id: null,
    started_at: 0,
    ended_at: 0,
    node,
    workspace: '',
    app: '',
    key_id: '',
    end_user: null,
    purpose: null,
    operation: null,
    endpoint: '',
    route: null,
    policy_version_id: null,
    provider: null,
    model: null,
    region: null,
    attempts: 0,
    attempt_reasons: null,
    outcome: 'ok',
    status: null,
    error_code: null,
    error_param: null,
    replayed: false,
    cache: null,
    audio_seconds: null,
    billable_audio_seconds: null,
    video_seconds: null,
    input_tokens: null,
    output_tokens: null,
    characters: null,
    images: null,
    credits: null,
    cost_usd: null,
    estimated: false,
    received_bytes: 0,
    sent_bytes: 0,
    total_ms: 0,
    body_ms: null,
    upstream_ms: null,
    first_ms: null,
  }
}
