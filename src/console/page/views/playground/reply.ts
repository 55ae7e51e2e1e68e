import type { Segment, TranscriptPart, Word } from '../../../../contracts/calls.ts'

/** Facts about a finished call, whatever the format of its answer. */
export interface CallFacts {
  readonly requestId: string | null
  readonly provider: string | null
  readonly model: string | null
  readonly version: string | null
  readonly costUsd: number | null
  readonly usage: readonly (readonly [name: string, value: number])[]
  readonly purpose: string | null
  readonly purposeSource: string | null
  readonly warnings: readonly string[]
}

export interface TranscriptReply extends CallFacts {
  /** The transcript, or the subtitles that were asked for. */
  readonly content: string
  readonly language: string | null
  readonly durationSeconds: number | null
  readonly segments: readonly Segment[]
  readonly words: readonly Word[]
  /** None: it was heard whole. */
  readonly parts: readonly TranscriptPart[]
  /** The answer as it came. */
  readonly raw: string
}

type Fields = Readonly<Record<string, unknown>>

/**
 * Reads the answer of `/v1/transcription`, or the result of a job: JSON, or a text with its facts in headers.
 *
 * @param header the value of an answer's header; null when there is none
 */
export function readTranscript(raw: string, header: (name: string) => string | null): TranscriptReply {
  const isJson = /json/.test(header('content-type') ?? 'application/json')
  const body = isJson ? parsedFields(raw) : null
  if (body === null) {
    const nothing = { language: null, durationSeconds: null, segments: [], words: [], parts: [] }
    return { ...headerFacts(header), ...nothing, content: raw, raw }
  }
  return {
    ...bodyFacts(body),
    content: textIn(body.content) ?? '',
    language: textIn(body.language),
    durationSeconds: numberOf(body.duration_seconds),
    segments: listIn(body.segments).flatMap(timed).map(segmentOf),
    words: listIn(body.words).flatMap(timed).map(timedWord),
    parts: listIn(body.parts).flatMap(timed) as unknown as TranscriptPart[],
    raw: JSON.stringify(body, null, 2),
  }
}

/** Facts about an answer, out of its JSON. */
export function bodyFacts(body: Fields): CallFacts {
  return {
    requestId: textIn(body.id),
    provider: textIn(body.provider),
    model: textIn(body.model),
    version: textIn(body.policy_version_id),
    costUsd: numberOf(body.cost_usd),
    usage: reportedUsage(body.usage),
    purpose: textIn(body.lk_applied_purpose),
    purposeSource: textIn(body.lk_purpose_source),
    warnings: listIn(body.warnings).filter((line) => typeof line === 'string'),
  }
}

/** Facts about an answer whose body is not JSON. */
export function headerFacts(header: (name: string) => string | null): CallFacts {
  const number = (name: string) => numberOf(Number(header(name) ?? Number.NaN))
  const usage = [
    'audio-seconds',
    'billable-audio-seconds',
    'audio-output-characters',
    'input-tokens',
    'output-tokens',
    'total-tokens',
  ].flatMap((name) => {
    const value = number(`x-lk-usage-${name}`)
    return value === null ? [] : [[name.replaceAll('-', '_'), value] as const]
  })
  return {
    requestId: header('x-lk-request-id'),
    provider: header('x-lk-provider'),
    model: header('x-lk-model'),
    version: header('x-lk-policy-version-id'),
    costUsd: number('x-lk-cost-usd'),
    usage,
    purpose: decoded(header('x-lk-applied-purpose')),
    purposeSource: header('x-lk-purpose-source'),
    warnings: listIn(parsedValue(header('x-lk-warnings') ?? '[]')).filter((line) => typeof line === 'string'),
  }
}

type Timed = Fields & { readonly start: number; readonly end: number }

/** One that has no time could be shown nowhere. */
export function timed(value: unknown): Timed[] {
  if (!isFields(value)) return []
  const start = numberOf(value.start)
  const end = numberOf(value.end)
  return start === null || end === null ? [] : [{ ...value, start, end: Math.max(start, end) }]
}

function segmentOf(value: Timed, index: number): Segment {
  return { ...timing(value), id: numberOf(value.id) ?? index, text: textIn(value.text) ?? '' }
}

function timedWord(value: Timed): Word {
  return { ...timing(value), word: textIn(value.word) ?? '' }
}

function timing({ start, end, speaker, channel, confidence }: Timed) {
  return {
    start,
    end,
    ...(typeof speaker === 'string' ? { speaker } : {}),
    ...(typeof channel === 'number' ? { channel } : {}),
    ...(typeof confidence === 'number' ? { confidence } : {}),
  }
}

function reportedUsage(value: unknown): CallFacts['usage'] {
  if (!isFields(value)) return []
  return Object.entries(value).flatMap(([name, count]) =>
    typeof count === 'number' ? [[name, count] as const] : [],
  )
}

function parsedFields(text: string): Fields | null {
  const value = parsedValue(text)
  return isFields(value) ? value : null
}

function parsedValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** A purpose is percent-encoded in a header. */
function decoded(value: string | null): string | null {
  try {
    return value === null ? null : decodeURIComponent(value)
  } catch {
    return value
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function textIn(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

function listIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
