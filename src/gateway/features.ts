import { languageCode } from '../providers/language.ts'
import { requiredFeatures } from '../providers/transcript-needs.ts'
import { type Feature, HINTS, type Hint, type Redaction, type TranscriptionOptions } from '../schema/calls.ts'
import type { ModelFacts, Unsupported } from '../schema/provider.ts'
import { type Left, overLimit } from './consideration.ts'

/** What a call requires of the model that hears it. */
export interface HearingDemand {
  readonly features: readonly Feature[]
  readonly redactions: readonly Redaction[]
  /** ISO 639; null when the call names none. */
  readonly language: string | null
}

/** The language that the caller says the audio is in, as a code; null when that is not known. */
export function knownLanguage({ language }: TranscriptionOptions): string | null {
  return language === null ? null : languageCode(language)
}

/**
 * Whether a model keeps all of the features at once; null when it does. One that it has in other languages only counts
 * as missing, and what it has but cannot do together is a conflict.
 */
export function lackOfFeatures(
  facts: ModelFacts,
  operation: 'transcription' | 'translation',
  { features, redactions: asked, language }: HearingDemand,
): Left | null {
  if (features.length === 0) return null
  const kept = operation === 'translation' ? (facts.translation_features ?? facts.features) : facts.features
  const redactions = asked.filter((kind) => facts.limits.redactions?.includes(kind) === false)
  const has = (feature: Feature) =>
    kept.includes(feature) && (feature !== 'redaction' || redactions.length === 0)
  const missing = features.filter((feature) => !has(feature) || !speaks(facts, feature, language))
  if (missing.length > 0) {
    const foreign = missing.some(has)
    const unredacted = kept.includes('redaction') ? redactions : []
    return lacking({ missing, language: foreign ? language : null, redactions: unredacted })
  }
  const conflict = facts.conflicts?.find((set) => set.every((member) => isIn(member, features)))
  return conflict === undefined ? null : lacking({ conflict: conflict as readonly Feature[] })
}

/** What an adapter says that it cannot send, as the reason why its entry is left out. */
export function leftUnsupported(unsupported: Unsupported): Left {
  switch (unsupported.why) {
    case 'features':
      return lacking({
        missing: unsupported.missing,
        conflict: unsupported.conflict,
        redactions: unsupported.redactions,
        language: unsupported.language,
      })
    case 'field':
      return overLimit(unsupported.param, unsupported.reason)
    case 'operation':
      return { why: 'operation' }
  }
}

function lacking(lack: Partial<Extract<Left, { readonly why: 'features' }>>): Left {
  return { why: 'features', missing: [], language: null, redactions: [], conflict: [], ...lack }
}

/**
 * Hints that were given and that a model would not heed: it has no such hint, or not in this language, or not together
 * with the features that are required. Of a set in which several hints are at odds the last one gives way.
 */
export function unheededHints(facts: ModelFacts, options: TranscriptionOptions): Hint[] {
  const given = HINTS.filter((hint) => options[hint] !== null && options[hint] !== false)
  if (given.length === 0) return []
  const language = knownLanguage(options)
  const heeded = new Set<Feature | Hint>(
    given.filter((hint) => facts.hints.includes(hint) && speaks(facts, hint, language)),
  )
  const features = requiredFeatures(options)
  for (const set of facts.conflicts ?? []) {
    const asked = set.every((member) => heeded.has(member) || isIn(member, features))
    const loser = asked ? set.findLast((member) => heeded.has(member)) : undefined
    if (loser !== undefined) heeded.delete(loser)
  }
  return given.filter((hint) => !heeded.has(hint))
}

function speaks({ languages }: ModelFacts, what: Feature | Hint, language: string | null): boolean {
  const spoken = languages?.[what]
  return language === null || spoken === undefined || spoken.includes(language)
}

function isIn(member: Feature | Hint, features: readonly Feature[]): boolean {
  return (features as readonly (Feature | Hint)[]).includes(member)
}
