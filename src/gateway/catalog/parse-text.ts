import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { LineCounter, parseDocument } from 'yaml'

/** A parsed document of any shape, or the reasons why the text cannot be parsed. */
export type ParsedText = { readonly document: unknown } | { readonly issues: readonly string[] }

/**
 * Longer texts are parsed in a thread. One of 10 MB, which has 100,000 keys, takes seconds and leaves a heap of 700 MB
 * behind, of which the system gets nothing back before the end of the thread.
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

/** Indentations of the JSON that programs write. */
const INDENTS = [0, 2, 4] as const

/**
 * The value of JSON as a program writes it, read fifty times sooner than as YAML; undefined: it is something else, or
 * only the rules of YAML judge it. Since the same text comes of the value, no name is in it twice.
 */
function plainJson(text: string): unknown {
  if (!text.startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(text)
    const whole = text.trimEnd()
    return INDENTS.some((indent) => JSON.stringify(value, null, indent) === whole) ? value : undefined
  } catch {
    return undefined
  }
}

/** Parses YAML 1.2, and so JSON. Never throws. */
export function parseText(text: string): ParsedText {
  const lines = new LineCounter()
  // Without `prettyErrors`, which would quote the line at fault: it may hold a secret.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, schema: 'core' })
  const problems = [...document.errors, ...document.warnings]
  if (problems.length > 0) {
    return {
      issues: problems.map(({ code, pos }) => {
        const { line, col } = lines.linePos(pos[0])
        return `line ${line}, column ${col}: ${code.toLowerCase().replaceAll('_', ' ')}`
      }),
    }
  }
  try {
    const value: unknown = document.toJS({ maxAliasCount: 100 })
    // Throws for what holds itself, which nothing behind this is made for.
    JSON.stringify(value)
    return { document: value }
  } catch {
    return { issues: ['/: an alias (*name) leads nowhere or into itself, or there are too many of them'] }
  }
}
