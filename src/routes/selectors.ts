import { Type } from 'typebox'
import type { Exchange } from '../inbound/exchange.ts'
import type { FieldReader } from '../inbound/form.ts'
import { PROFILES } from '../schema/catalog.ts'
import type { Selectors } from '../schema/selectors.ts'

/**
 * How much of a label is kept, UTF-16 units. A configuration declares none of over 64, so that a longer one is unknown
 * whatever is kept of it; what is kept is repeated in the answer.
 */
const LABEL_KEPT_MAX = 1_024

/** Fields that would choose a provider, a model or a route: the key's route does that. */
export const ROUTE_CONTROL: ReadonlySet<string> = new Set([
  'provider',
  'model',
  'models',
  'route',
  'route_id',
  'fallbacks',
  'strategy',
])

/** The routing selectors as fields of any request body. */
export const SELECTOR_FIELDS = {
  purpose: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: 'label that the workspace declares: picks the route; an unknown one changes nothing',
    }),
  ),
  response_profile: Type.Optional(
    Type.Union([Type.Enum([...PROFILES]), Type.Null()], {
      description: 'picks among the entries of the route',
    }),
  ),
}

/**
 * The routing selectors of any call. The body's purpose wins over the header's; an empty one counts as not
 * sent.
 */
export function readSelectors(exchange: Pick<Exchange, 'headers'>, reader: FieldReader): Selectors {
  const inBody = labelIn(reader.string('purpose'))
  const inHeader = labelIn(exchange.headers['x-lk-purpose'])
  const responseProfile = reader.string('response_profile', { oneOf: PROFILES })
  if (inBody) return { purpose: { label: inBody, source: 'body' }, responseProfile }
  if (inHeader) return { purpose: { label: inHeader, source: 'header' }, responseProfile }
  return { purpose: null, responseProfile }
}

function labelIn(given: string | null | undefined): string | undefined {
  return given?.trim().slice(0, LABEL_KEPT_MAX).toWellFormed()
}
