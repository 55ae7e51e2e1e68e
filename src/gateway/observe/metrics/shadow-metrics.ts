import {
  SHADOW_SKIPS,
  type ShadowEnd,
  type ShadowPair,
  type ShadowReference,
  type ShadowSkip,
  type ShadowWatch,
} from '../../../contracts/shadow.ts'
import { Counters, Histograms, type Rendered } from './family.ts'

const OF_PAIR = ['operation', 'provider', 'model', 'shadow_provider', 'shadow_model']
const RATES = [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]
const SECONDS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4]

/** Calls of shadows by pairs of entries, whose names come out of the configuration. */
export class ShadowMetrics implements ShadowWatch {
  readonly #families = shadowFamilies()

  constructor() {
    for (const reason of SHADOW_SKIPS) this.#families.skipped.of(reason)
  }

  skipped(reason: ShadowSkip): void {
    this.#families.skipped.of(reason).add(1)
  }

  ended({ pair, outcome, comparison }: ShadowEnd): void {
    const { calls, words, errors, rates, seconds, spent } = this.#families
    const labels = labelsOf(pair)
    calls.of(...labels, outcome).add(1)
    if (comparison === null) return
    words.of(...labels).add(comparison.words)
    errors.of(...labels).add(comparison.errors)
    // Without a word in the answer, one is as wrong as many.
    const rate = comparison.words > 0 ? comparison.errors / comparison.words : Math.min(1, comparison.errors)
    rates.of(...labels).observe(rate)
    for (const side of ['entry', 'shadow'] as const) {
      if (comparison.milliseconds !== null)
        seconds.of(...labels, side).observe(comparison.milliseconds[side] / 1000)
      if (comparison.costUsd !== null) spent.of(...labels, side).add(comparison.costUsd[side])
    }
  }

  referred({ pair, words, errors }: ShadowReference): void {
    const { references, referenceWords, referenceErrors } = this.#families
    const labels = labelsOf(pair)
    references.of(...labels).add(1)
    for (const side of ['entry', 'shadow'] as const) {
      // Twice the same, so that one divides by the other.
      referenceWords.of(...labels, side).add(words)
      referenceErrors.of(...labels, side).add(errors[side])
    }
  }

  get families(): readonly Rendered[] {
    return Object.values(this.#families)
  }
}

function labelsOf({ operation, provider, model, shadowProvider, shadowModel }: ShadowPair): string[] {
  return [operation, provider, model, shadowProvider, shadowModel]
}

function shadowFamilies() {
  return {
    skipped: new Counters(
      'larkway_shadow_skipped_total',
      'Calls that were drawn for the shadow of their route and not sent to it, by reason.',
      ['reason'],
    ),
    calls: new Counters('larkway_shadow_calls_total', 'Calls of shadows, by how they ended.', [
      ...OF_PAIR,
      'outcome',
    ]),
    words: new Counters(
      'larkway_shadow_words_total',
      'Words of the answers that a shadow was compared with.',
      OF_PAIR,
    ),
    errors: new Counters(
      'larkway_shadow_word_errors_total',
      'Words in which a shadow differs from the answer.',
      OF_PAIR,
    ),
    rates: new Histograms(
      'larkway_shadow_word_error_rate',
      'Share of the words of an answer in which the shadow differs from it.',
      OF_PAIR,
      RATES,
    ),
    seconds: new Histograms(
      'larkway_shadow_seconds',
      'Seconds that each side of a comparison took for its answer.',
      [...OF_PAIR, 'side'],
      SECONDS,
    ),
    spent: new Counters(
      'larkway_shadow_cost_usd_total',
      'USD that each side of a comparison comes to by its price; that of the shadow is never charged.',
      [...OF_PAIR, 'side'],
    ),
    references: new Counters(
      'larkway_shadow_references_total',
      'References that callers brought for calls in which a shadow was compared.',
      OF_PAIR,
    ),
    referenceWords: new Counters(
      'larkway_shadow_reference_words_total',
      'Words of the references that each side of a comparison was held against.',
      [...OF_PAIR, 'side'],
    ),
    referenceErrors: new Counters(
      'larkway_shadow_reference_errors_total',
      'Words of references in which each side of a comparison differs.',
      [...OF_PAIR, 'side'],
    ),
  }
}
