import { type Feature, HINTS, type Hint, type TranscriptionOptions } from '../../../contracts/calls.ts'
import type { ModelFacts } from '../../../contracts/provider.ts'
import { languageCode } from '../../providers/language.ts'
import { requiredFeatures } from '../../providers/transcript-needs.ts'

/** Code of the language that the caller gives for the audio; null when it is not known. */
export function knownLanguage({ language }: TranscriptionOptions): string | null {
  return language === null ? null : languageCode(language)
}

/**
 * Lists given hints that a model would ignore: it does not support the hint, or not in this language, or not together
 * with the required features. Among conflicting hints the last one gives way.
 */
export function unheededHints(facts: ModelFacts, options: TranscriptionOptions): Hint[] {
  const given = HINTS.filter((hint) => (options[hint] ?? false) !== false)
  if (given.length === 0) return []
  const language = knownLanguage(options)
  const heeded = new Set<Feature | Hint>(
    given.filter((hint) => facts.hints.includes(hint) && speaks(facts, hint, language)),
  )
  const features = requiredFeatures(options)
  for (const set of facts.conflicts ?? []) {
    const conflicts = set.every((member) => heeded.has(member) || isIn(member, features))
    const loser = conflicts ? set.findLast((member) => heeded.has(member)) : undefined
    if (loser !== undefined) heeded.delete(loser)
  }
  return given.filter((hint) => !heeded.has(hint))
}

/** Whether a model is told the language that a call names. */
export function heedsLanguage(facts: ModelFacts, options: TranscriptionOptions): boolean {
  return facts.hints.includes('language') && speaks(facts, 'language', knownLanguage(options))
}

export function speaks({ languages }: ModelFacts, what: Feature | Hint, language: string | null): boolean {
  const spoken = languages?.[what]
  return language === null || spoken === undefined || spoken.includes(language)
}

export function isIn(member: Feature | Hint, features: readonly Feature[]): boolean {
  return (features as readonly (Feature | Hint)[]).includes(member)
}

/** Takes hints that an entry lacks out of the options. */
export function withoutHints(options: TranscriptionOptions, lacked: readonly Hint[]): TranscriptionOptions {
  if (lacked.length === 0) return options
  const changed: { -readonly [Name in Hint]?: TranscriptionOptions[Name] } = {}
  for (const hint of lacked) {
    if (hint === 'language' || hint === 'prompt' || hint === 'speaker_count_hint') changed[hint] = null
    else changed[hint] = false
  }
  return { ...options, ...changed }
}
