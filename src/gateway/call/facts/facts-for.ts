import type { TranscriptionOptions } from '../../../contracts/calls.ts'
import type { Entry } from '../../../contracts/catalog.ts'
import type { Price } from '../../../contracts/facts.ts'
import type { Calls, OperationName } from '../../../contracts/operations.ts'
import type { ModelFacts } from '../../../contracts/provider.ts'
import { SEVERAL_LANGUAGES } from '../../providers/language.ts'
import { heedsLanguage } from './hints.ts'
import { type LanguageCase, priceForLanguages } from './price.ts'

/** As much of a call as tells whose facts count; any `Call` is one. */
interface Judged {
  readonly operation: OperationName
  readonly payload: Calls[OperationName]
}

/** Whether it is a transcription of audio that is still coming. */
export function isLive({ operation, payload }: Judged): boolean {
  return operation === 'transcription' && 'live' in payload && payload.live !== undefined
}

/** Facts of entries for live audio: each is judged by one object, however many calls it has. */
const live = new WeakMap<Entry, ModelFacts>()

/**
 * Facts that a call is judged and priced by. For live audio they are what the model keeps live, and nothing that it
 * keeps of files: a model without such facts lacks the feature `realtime`, as every model does for files.
 */
export function factsFor(entry: Entry, call: Judged): ModelFacts {
  if (!isLive(call) || entry.facts.live === undefined) return entry.facts
  const known = live.get(entry)
  if (known !== undefined) return known
  const { features, hints, conflicts, limits, price } = entry.facts.live
  const { max_channels, redactions, keyterms } = limits
  const { conflicts: _conflicts, ...others } = entry.facts
  const made: ModelFacts = {
    ...others,
    // Also of a model that is for live audio alone, whose list has no transcription.
    operations: ['transcription'],
    features: [...new Set([...features, 'realtime' as const])],
    hints,
    ...(conflicts === undefined ? {} : { conflicts }),
    limits: {
      ...(max_channels === undefined ? {} : { max_channels }),
      ...(redactions === undefined ? {} : { redactions }),
      ...(keyterms === undefined ? {} : { keyterms }),
    },
    price: price ?? null,
  }
  live.set(entry, made)
  return made
}

/** The price of a call at an entry; null: not known. */
export function priceFor(entry: Entry, call: Judged): Price | null {
  const { price } = factsFor(entry, call)
  if (price?.by_language === undefined || !('options' in call.payload)) return price
  return priceForLanguages(price, languagesAt(entry, call, call.payload.options))
}

/** Languages that the entry is told of a call: `one` only where its model takes the hint. */
function languagesAt(entry: Entry, call: Judged, options: TranscriptionOptions): LanguageCase {
  const { language, detect_language: detects } = options
  if (language === null) return null
  if (language === SEVERAL_LANGUAGES) return 'several'
  return !detects && heedsLanguage(factsFor(entry, call), options) ? 'one' : null
}
