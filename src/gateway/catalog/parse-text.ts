import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { load, YAMLException } from 'js-yaml'

/** A parsed document of any shape, or the reasons why the text cannot be parsed. */
export type ParsedText = { readonly document: unknown } | { readonly issues: readonly string[] }

/**
 * Longer texts are parsed in a thread: one of 10 MB, which has 100,000 keys, takes more than half a second, and the
 * system gets nothing back of what it needs before the end of the thread.
 */
const SHORT_CHARACTERS = 256 * 1024

/** Parses YAML 1.2, and so JSON, without stopping the event loop. Never rejects for what the text is. */
export async function parseInThread(text: string): Promise<ParsedText> {
  const value = plainJson(text)
  if (value !== undefined) return { document: value }
  if (text.length <= SHORT_CHARACTERS) return parseText(text)
  const worker = new Worker(new URL('./parse-worker.ts', import.meta.url), { workerData: text })
  const [[parsed]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
  return parsed as ParsedText
}

/**
 * The value of JSON as a program writes it, read several times sooner than as YAML; undefined: it is something else, or
 * only the rules of YAML judge it. Since the same text comes of the value, no name is in it twice.
 */
function plainJson(text: string): unknown {
  if (!text.startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(text)
    const whole = text.trimEnd()
    return [0, 2, 4].some((indent) => JSON.stringify(value, null, indent) === whole) ? value : undefined
  } catch {
    return undefined
  }
}

/** Parses YAML 1.2, and so JSON. Never throws. */
export function parseText(text: string): ParsedText {
  try {
    const document = load(text)
    if (sizeOf(document) <= 10 * text.length) return { document }
    return { issues: ['/: an alias (*name) leads into itself, or what aliases stand for is too large'] }
  } catch (error) {
    if (!(error instanceof YAMLException)) return { issues: ['/: is nested too deeply'] }
    const { reason, mark } = error
    const place = mark === undefined ? '/' : `line ${mark.line + 1}, column ${mark.column + 1}`
    // The reason ends before a part of the text that it quotes, which may hold a secret.
    return { issues: [`${place}: ${reason.split(/ "| !<|: /, 1)}`] }
  }
}

/** How many values there are where each is counted wherever it stands; infinity: one holds itself. */
function sizeOf(value: unknown, sizes = new Map<object, number>()): number {
  if (typeof value !== 'object' || value === null) return 1
  const known = sizes.get(value)
  if (known !== undefined) return known
  sizes.set(value, Number.POSITIVE_INFINITY) // what leads back to it meanwhile holds itself
  const size = Object.values(value).reduce<number>((sum, part) => sum + sizeOf(part, sizes), 1)
  sizes.set(value, size)
  return size
}
