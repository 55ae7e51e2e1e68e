import { LineCounter, parseDocument } from 'yaml'
import type { Surroundings } from './provider.ts'
import { buildSnapshot, type Reading } from './snapshot.ts'

/** What a text says, whatever that is, or why it says nothing. */
export type ParsedText = { readonly document: unknown } | { readonly faults: readonly string[] }

/** Reads a configuration in YAML 1.2, and so in JSON. Never throws: what cannot be parsed is a fault too. */
export function readCatalog(text: string, surroundings: Surroundings): Reading {
  const parsed = parseText(text)
  return 'faults' in parsed ? parsed : buildSnapshot(parsed.document, surroundings)
}

/** Parses YAML 1.2, and so JSON. Never throws. */
export function parseText(text: string): ParsedText {
  const lines = new LineCounter()
  // Without `prettyErrors`, which would quote the line at fault: it may hold a secret.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, schema: 'core' })
  const problems = [...document.errors, ...document.warnings]
  if (problems.length > 0) {
    return {
      faults: problems.map(({ code, pos }) => {
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
    return { faults: ['/: an alias (*name) leads nowhere or into itself, or there are too many of them'] }
  }
}
