import { parseText } from '../../src/gateway/catalog/parse-text.ts'
import type { ProviderContext } from '../../src/gateway/catalog/provider.ts'
import { buildSnapshot, type Reading } from '../../src/gateway/catalog/snapshot.ts'

/** Reads a configuration in YAML or JSON, on the thread of the test. */
export function readCatalog(text: string, surroundings: ProviderContext): Reading {
  const parsed = parseText(text)
  return 'issues' in parsed ? parsed : buildSnapshot(parsed.document, surroundings)
}
