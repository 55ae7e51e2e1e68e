import type { Feature, Redaction } from '../../contracts/calls.ts'
import type { EmbeddingsCall } from '../../contracts/generation.ts'
import type { Unsupported } from '../../contracts/provider.ts'
import { failed, refused } from './failure.ts'

/** Each feature as the reasons of failures name it. */
const FEATURE_NAMES: Readonly<Record<Feature, string>> = {
  word_timestamps: 'word times',
  segment_timestamps: 'segment times',
  diarization: 'speakers',
  redaction: 'redaction',
  keyterms: 'keyterms',
  multichannel: 'channels',
  realtime: 'realtime',
}

interface Cause {
  /** Features that the model has and does not keep together. */
  readonly conflict?: readonly Feature[]
  /** Kinds that it cannot redact, where it redacts others. */
  readonly redactions?: readonly Redaction[]
  /** The language in which they are missing, where it has them in others. */
  readonly language?: string
}

/** Required features for which a request has no place; null when it has a place for all. */
export function lackedFeatures(
  features: readonly (Feature | false)[],
  { conflict = [], redactions = [], language }: Cause = {},
): Unsupported | null {
  const missing = features.filter((feature) => feature !== false)
  if (missing.length === 0 && conflict.length === 0) return null
  const featureName = (feature: Feature) =>
    feature === 'redaction' && redactions.length > 0
      ? `redaction of ${redactions.join(', ')}`
      : FEATURE_NAMES[feature]
  const names = missing.map(featureName)
  if (conflict.length > 0) names.push(conflict.map(featureName).join(' together with '))
  const where = language === undefined ? '' : ` in ${language}`
  const reason = `the model has no ${names.join(', ')}${where}`
  return { why: 'features', missing, conflict, redactions, language: language ?? null, reason }
}

/** A field with a value that the model or its provider does not take. */
export function unsupportedField(param: string, reason: string): Unsupported {
  return { why: 'field', param, reason }
}

/** Inputs that are tokens, of a provider that takes texts alone; null where there are none. */
export function unsupportedTokens({ input }: Pick<EmbeddingsCall, 'input'>): Unsupported | null {
  if (!input.some((one) => typeof one !== 'string')) return null
  return unsupportedField('input', 'the provider takes texts, not tokens')
}

/** The failure of a call that cannot be sent, for a `start` that fails closed. */
export function unsent(unsupported: Unsupported) {
  const { reason } = unsupported
  return failed(refused(unsupported.why === 'field' ? `${unsupported.param}: ${reason}` : reason))
}
