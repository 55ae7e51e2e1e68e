import { isDeepStrictEqual } from 'node:util'
import { arrayIn, at } from '../../../catalog/parts.ts'
import type { RecordFields, RecordName } from '../../../schema/catalog-store.ts'
import { FACT_SHAPES } from '../../../schema/facts.ts'
import type { ConsoleDesk } from '../desk.ts'
import { partOf } from './parts.ts'

const FACTS = Object.keys(FACT_SHAPES)
const ONLY_OPERATORS = 'only an operator may say that'

/**
 * What an admin may not publish, as lines of faults: facts of a model that is billed by the platform, which would let a
 * workspace set its own price, and regular expressions, which run on the node for everybody. What an operator has
 * published before may stay as it is.
 */
export function operatorFacts(
  desk: Pick<ConsoleDesk, 'catalog'>,
  record: RecordName,
  fields: RecordFields,
): string[] {
  const before = partOf(desk, record)?.fields ?? {}
  if (record.kind === 'provider') return patternFaults(fields, before, '')
  if (record.kind !== 'route') return []
  const platform = new Set(
    desk.catalog.good().providers.flatMap(({ name, access }) => (access === 'platform' ? [name] : [])),
  )
  const known = arrayIn(before.entries)
  return arrayIn(fields.entries).flatMap((entry, index) => {
    const same = known.filter((one) => namesOf(one) === namesOf(entry))
    const path = `/entries/${index}`
    if (!platform.has(String(at(entry, 'provider')))) {
      return same.some((one) => patternFaults(entry, one, path).length === 0)
        ? []
        : patternFaults(entry, {}, path)
    }
    const declared = FACTS.filter((fact) => at(entry, fact) !== undefined)
    const isKept = same.some((one) =>
      declared.every((fact) => isDeepStrictEqual(at(one, fact), at(entry, fact))),
    )
    return isKept
      ? []
      : declared.map((fact) => `${path}/${fact}: ${ONLY_OPERATORS} of a model of the platform`)
  })
}

function patternFaults(fields: unknown, before: unknown, path: string): string[] {
  const pattern = at(at(fields, 'limits'), 'voice_pattern')
  const isKept = pattern === undefined || pattern === at(at(before, 'limits'), 'voice_pattern')
  return isKept ? [] : [`${path}/limits/voice_pattern: ${ONLY_OPERATORS}`]
}

function namesOf(entry: unknown): string {
  return JSON.stringify([at(entry, 'provider'), at(entry, 'model')])
}
