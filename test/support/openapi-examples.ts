import type { Example } from '../../src/api/openapi/document.ts'
import type { DocumentedCall } from './openapi-calls.ts'
import type { Answered } from './openapi-document.ts'

const TEXT_LENGTH_MAX = 160
const TEXT_LENGTH_SHOWN = 64
const NUMBERS_MAX = 4

/** What differs from run to run, and what always stands in its place. A secret in full would alarm scanners. */
const CHANGING: readonly (readonly [RegExp, string])[] = [
  [/\breq_[0-9a-z]{26}\b/g, 'req_01m7vpxmwhcxyhwv0c3a668m1h'],
  [/\b(tj|qj)_[0-9a-z]{26,}\b/g, '$1_01m7vpxmwhcxyhwv0c3a668m1h'],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '2026-11-20T09:00:00.000Z'],
  [/"created":\d{10}\b/g, '"created":1795165200'],
  [/whsec_[A-Za-z0-9+/=]+/g, 'whsec_…'],
  [/lk_live_\w+/g, 'lk_live_xxxx'],
  [/\/results\/[^"]+/g, '/results/…'],
]

/** A call and its answer as the document shows them. */
export function exampleOf({ summary, json }: DocumentedCall, { status, headers, body }: Answered): Example {
  const type = (headers.get('content-type') ?? '').split(';')[0] ?? ''
  const text = body.toString()
  return {
    summary,
    request: json === undefined ? null : (shown(json) as Example['request']),
    status,
    type,
    answer: type === 'application/json' ? shown(JSON.parse(still(text))) : still(text),
  }
}

/** JSON with its long texts and lists cut. */
function shown(value: unknown): unknown {
  if (typeof value === 'string') return cut(value)
  if (Array.isArray(value)) return numbersCut(value).map(shown)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shown(part)]))
}

function still(text: string): string {
  return CHANGING.reduce((told, [pattern, instead]) => told.replaceAll(pattern, instead), text)
}

function cut(text: string): string {
  return text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_SHOWN)}…` : text
}

function numbersCut(list: unknown[]): unknown[] {
  return list.every((item) => typeof item === 'number') ? list.slice(0, NUMBERS_MAX) : list
}
