import type { StreamedName } from '../../contracts/operations.ts'
import type { Envelope } from '../call/attempt/outcome.ts'
import type { Streaming } from '../call/attempt/stream.ts'
import type { CallContext } from '../call/context/call-context.ts'
import type { UnitLevel } from '../call/facts/units.ts'
import type { CommonHeaders } from '../edge/exchange.ts'
import { commonHeaders, rememberedLines } from '../edge/reply.ts'

type Facts = Pick<
  Envelope,
  | 'provider'
  | 'model'
  | 'usage'
  | 'cost_usd'
  | 'lk_requested_purpose'
  | 'lk_applied_purpose'
  | 'lk_purpose_source'
> &
  Partial<Pick<Envelope, 'warnings'>>

/** Longest value that callers have a hand in: proxies give all headers of an answer 4 to 8 KiB. */
const VALUE_LENGTH_MAX = 2_048

/** The envelope's facts beside a body that is not JSON. Warnings are a JSON array in ASCII, cut behind a whole one. */
export function factHeaders(facts: Facts): Record<string, string> {
  const { usage, cost_usd: costUsd, lk_requested_purpose: requested, lk_applied_purpose: applied } = facts
  const headers: Record<string, string> = {
    'x-lk-provider': facts.provider,
    'x-lk-model': facts.model,
    'x-lk-purpose-source': facts.lk_purpose_source,
  }
  for (const [name, value] of Object.entries(usage)) {
    if (value !== null) headers[usageHeaders.get(name) ?? usageHeader(name)] = String(value)
  }
  if (costUsd !== null) headers['x-lk-cost-usd'] = String(costUsd)
  const encoded = requested === null ? '' : encodeURIComponent(requested.toWellFormed())
  if (encoded !== '' && encoded.length <= VALUE_LENGTH_MAX) headers['x-lk-requested-purpose'] = encoded
  if (applied !== null) headers['x-lk-applied-purpose'] = encodeURIComponent(applied)
  const { warnings } = facts
  return warnings === undefined || warnings.length === 0
    ? headers
    : Object.assign(headers, warningHeaders(warnings))
}

/** Facts that stood in headers beside some bytes, and those headers. */
interface KeptHeaders {
  readonly mediaType: string
  readonly facts: Facts
  readonly headers: CommonHeaders
}

const keptByBytes = new WeakMap<Uint8Array, KeptHeaders>()

/** Headers of an answer with bytes that were given before: the same again as long as the same is to be told. */
export function keptHeaders(bytes: Uint8Array, mediaType: string, facts: Facts): CommonHeaders {
  const known = keptByBytes.get(bytes)
  if (known !== undefined && known.mediaType === mediaType && isSame(known.facts, facts)) return known.headers
  const headers = commonHeaders({ 'content-type': mediaType, ...factHeaders(facts) })
  keptByBytes.set(bytes, { mediaType, facts, headers })
  return headers
}

function isSame(a: Facts, b: Facts): boolean {
  return (
    isSameUsage(a.usage, b.usage) &&
    a.provider === b.provider &&
    a.model === b.model &&
    a.cost_usd === b.cost_usd &&
    a.lk_requested_purpose === b.lk_requested_purpose &&
    a.lk_applied_purpose === b.lk_applied_purpose &&
    a.lk_purpose_source === b.lk_purpose_source &&
    a.warnings?.length === 0 &&
    b.warnings?.length === 0
  )
}

function isSameUsage(a: Facts['usage'], b: Facts['usage']): boolean {
  if (a === b) return true
  for (const name in a) if (a[name] !== b[name]) return false
  return true
}

/** Names of headers by those of what is metered, which come from this program alone. */
const usageHeaders = new Map<string, string>()

function usageHeader(name: string): string {
  const header = `x-lk-usage-${name.replaceAll('_', '-')}`
  usageHeaders.set(name, header)
  return header
}

/** Warnings alone; none without any. */
export function warningHeaders(lines: readonly string[]): Record<string, string> {
  const warnings = asciiJson(lines)
  return warnings === '[]' ? {} : { [WARNINGS_HEADER]: warnings }
}

const WARNINGS_HEADER = 'x-lk-warnings'

/** Puts the warnings among the headers of an answer into the names that the clients of a door have for fields. */
export function nameWarnings(headers: Record<string, string>, names: Readonly<Record<string, string>>): void {
  const lines = headers[WARNINGS_HEADER]
  if (lines === undefined) return
  // A line begins there; a quote within one has a backslash before it.
  const named = lines.replace(/(?<=[[,]")[\w.]+(?=: )/g, (name) =>
    Object.hasOwn(names, name) ? (names[name] ?? name) : name,
  )
  headers[WARNINGS_HEADER] = named
}

/** The same for a stream: what is known of it when it begins. */
export function streamFacts({
  head,
  expected,
  warnings,
}: Pick<Streaming<StreamedName>, 'head' | 'expected' | 'warnings'>): Record<string, string> {
  return factHeaders({ ...head, ...expected, warnings })
}

function asciiJson(lines: readonly string[]): string {
  const items: string[] = []
  let length = 2
  for (const line of lines) {
    const item = JSON.stringify(line).replace(/[\x7f-\uffff]/g, escaped)
    length += item.length + 1
    if (length > VALUE_LENGTH_MAX) break
    items.push(item)
  }
  return `[${items.join(',')}]`
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

const VERSION_HEADER = 'x-lk-policy-version-id'
const CACHE_HIT = '\r\nx-lk-cache: hit'
const CACHE_MISS = '\r\nx-lk-cache: miss'

/**
 * Lines of the facts that every answer to a call tells, errors too, as `WholeReply.lines`. One text of a few pieces:
 * as headers, looked up, checked and written one by one, they were a tenth of what a small answer costs.
 *
 * @param headers others that the answer has; of one that is replayed they have the version
 */
export function callLines(
  { routing: { policyVersionId }, answer: { bucket, units, cache, encodedFrom } }: CallContext,
  headers: Readonly<Record<string, string>>,
): string {
  let lines = ''
  if (bucket !== null)
    lines += limitLine(bucket.limit) + bucket.remaining + RESET_LINE + formatDuration(bucket.resetMs)
  if (units !== null) lines += unitLines(units)
  if (policyVersionId !== null && headers[VERSION_HEADER] === undefined) lines += versionLine(policyVersionId)
  if (encodedFrom !== null) lines += encodedLine(encodedFrom)
  if (cache !== null) lines += cache === 'hit' ? CACHE_HIT : CACHE_MISS
  return lines
}

function unitLines({ unit, limit, state: { remaining, resetMs } }: UnitLevel): string {
  const line = (name: string, value: number | string) => `\r\nx-ratelimit-${name}-${unit}: ${value}`
  return line('limit', limit) + line('remaining', remaining) + line('reset', formatDuration(resetMs))
}

const limitLine = rememberedLines(
  (limit: number) => `\r\nx-ratelimit-limit-requests: ${limit}\r\nx-ratelimit-remaining-requests: `,
)
const RESET_LINE = '\r\nx-ratelimit-reset-requests: '
const encodedLine = rememberedLines((format: string) => `\r\nx-lk-encoded-from: ${format}`)
const versionLine = rememberedLines((version: string) => `\r\n${VERSION_HEADER}: ${version}`)

/** Milliseconds in the form of OpenAI's headers: `120ms`, `1s`, `6m0s`, `1h0m0s`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.ceil(milliseconds)}ms`
  const seconds = Math.ceil(milliseconds / 1000)
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)]
  if (hours > 0) return `${hours}h${minutes}m${seconds % 60}s`
  return minutes > 0 ? `${minutes}m${seconds % 60}s` : `${seconds}s`
}
