import type { RouteFields } from '../../../../../catalog/file.ts'
import { editingOf, fieldsOf } from './editing.ts'

/** Keys that come first, in this order; the others follow by name. */
const FIRST = ['workspace', 'strategy', 'published', 'entries', 'provider', 'model', 'weight', 'profile']

/**
 * A route as the configuration file would have it, in YAML: one thing a line and no commas, so that a line differs only
 * where something does. Defaults are left out, and keys are in one order.
 */
export function routeText(fields: RouteFields): string {
  return linesOf(fieldsOf(editingOf(fields)), '').join('\n')
}

function linesOf(value: unknown, indent: string): readonly string[] {
  if (Array.isArray(value))
    return value.flatMap((item: unknown) => {
      if (isSimple(item)) return [`${indent}- ${scalar(item)}`]
      const [first = '', ...rest] = linesOf(item, `${indent}  `)
      return [`${indent}- ${first.trimStart()}`, ...rest]
    })
  return Object.entries(value as object)
    .toSorted(([a], [b]) => placeOf(a) - placeOf(b) || (a < b ? -1 : 1))
    .flatMap(([key, part]: [string, unknown]) =>
      isSimple(part)
        ? [`${indent}${word(key)}: ${scalar(part)}`]
        : [`${indent}${word(key)}:`, ...linesOf(part, `${indent}  `)],
    )
}

function placeOf(key: string): number {
  const place = FIRST.indexOf(key)
  return place < 0 ? FIRST.length : place
}

/** What stands on one line: all that has no parts, lists of words among them. */
function isSimple(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  const parts: readonly unknown[] = Object.values(value)
  return parts.length === 0 || (Array.isArray(value) && parts.every((part) => typeof part !== 'object'))
}

function scalar(value: unknown): string {
  if (typeof value === 'string') return word(value)
  if (Array.isArray(value)) return `[${value.map(scalar).join(', ')}]`
  return JSON.stringify(value)
}

/** As it is where YAML takes it for a text and for nothing else, else in quotes. */
function word(text: string): string {
  const isPlain = /^[A-Za-z_][\w./-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(text)
  return isPlain ? text : JSON.stringify(text)
}
