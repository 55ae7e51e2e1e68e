import type { AcceptRule, Entry } from '../../../contracts/catalog.ts'
import { GEN_AI_OPERATION, genAiProvider } from '../../../contracts/gen-ai.ts'
import type { OperationName } from '../../../contracts/operations.ts'
import type { CacheOutcome, CacheWatch } from '../../../contracts/speech-cache.ts'
import type { AttemptOutcome, CallWatch, DoubtOutcome, WatchedAttempt } from '../../../contracts/watch.ts'
import { type Counter, Counters, type Histogram, Histograms, type Rendered } from './family.ts'

const SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const PERMIT_SECONDS = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600]
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power)
/** Attributes of the conventions, as Prometheus writes them; `provider` is what our configuration calls it. */
const OF_MODEL = ['gen_ai_operation_name', 'gen_ai_provider_name', 'gen_ai_request_model', 'provider']
const OF_ENTRY = ['operation', 'provider', 'model']
const MICROS_PER_USD = 1_000_000

/**
 * Counts the outcomes of calls per route entry. Names of providers and models come out of the configuration, which
 * bounds the number of series. Names that begin with `gen_ai_` are those of the GenAI semantic conventions, and so are
 * the bounds of their buckets:
 * https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-metrics.md
 */
export class CallMetrics implements CallWatch, CacheWatch {
  readonly #families = callFamilies()
  readonly #evictions = this.#families.cacheEvictions.of()
  /** An entry belongs to a snapshot; one of the same name in the next snapshot counts on. */
  readonly #entries = new WeakMap<Entry, EntrySeries>()

  attempted({
    entry,
    operation,
    outcome,
    milliseconds,
    firstDeltaMs: firstPieceMs,
    failover,
  }: WatchedAttempt): void {
    const series = this.#entryOf(entry).at(operation)
    series.ended(outcome, milliseconds / 1000)
    if (firstPieceMs !== null) series.began(firstPieceMs / 1000)
    if (failover) series.failedOver()
  }

  waited({ provider }: Entry, milliseconds: number): void {
    this.#families.waits.of(provider.name).observe(milliseconds / 1000)
  }

  doubted({ provider, model }: Entry, operation: OperationName, rule: AcceptRule, how: DoubtOutcome): void {
    this.#families.doubts.of(operation, provider.name, model, rule, how).add(1)
  }

  looked({ provider, model }: Entry, how: CacheOutcome): void {
    this.#families.cacheLooks.of(provider.name, model, how).add(1)
  }

  spared({ provider, model }: Entry, bytes: number): void {
    this.#families.cacheBytes.of(provider.name, model).add(bytes)
  }

  evicted(): void {
    this.#evictions.add(1)
  }

  metered(entry: Entry, operation: OperationName, usage: Readonly<Record<string, number | null>>): void {
    const series = this.#entryOf(entry).at(operation)
    for (const name in usage) {
      const amount = usage[name]
      if (amount) series.used(name, amount)
    }
  }

  charged(entry: Entry, spendMicros: number): void {
    if (spendMicros > 0) this.#entryOf(entry).spent.add(spendMicros / MICROS_PER_USD)
  }

  get families(): readonly Rendered[] {
    return Object.values(this.#families)
  }

  #entryOf(entry: Entry): EntrySeries {
    const known = this.#entries.get(entry)
    if (known !== undefined) return known
    const series = new EntrySeries(this.#families, entry)
    this.#entries.set(entry, series)
    return series
  }
}

type Families = ReturnType<typeof callFamilies>

function callFamilies() {
  return {
    duration: new Histograms(
      'gen_ai_client_operation_duration_seconds',
      'Seconds of an attempt at a provider, from its beginning to the end of its answer.',
      [...OF_MODEL, 'error_type'],
      SECONDS,
    ),
    firstChunk: new Histograms(
      'gen_ai_client_operation_time_to_first_chunk_seconds',
      'Seconds until the first piece of a streamed answer was here.',
      OF_MODEL,
      SECONDS,
    ),
    tokens: new Histograms(
      'gen_ai_client_token_usage',
      'Tokens of a call, as its provider counts them.',
      [...OF_MODEL, 'gen_ai_token_type'],
      TOKENS,
    ),
    attempts: new Counters('larkway_attempts_total', 'Attempts at entries of routes, by how they ended.', [
      ...OF_ENTRY,
      'outcome',
    ]),
    failovers: new Counters(
      'larkway_failovers_total',
      'Attempts at an entry because the one before had failed.',
      OF_ENTRY,
    ),
    waits: new Histograms(
      'larkway_slot_wait_seconds',
      'Seconds that a call waited for a permit of an account, whether it got one or not.',
      ['provider'],
      PERMIT_SECONDS,
    ),
    doubts: new Counters(
      'larkway_transcript_doubts_total',
      'Transcripts that broke a rule of accept, by rule and by what became of them.',
      [...OF_ENTRY, 'rule', 'outcome'],
    ),
    cacheLooks: new Counters(
      'larkway_speech_cache_total',
      'Calls of routes that keep speech, by whether the audio was there (hit), on its way (joined) or made.',
      ['provider', 'model', 'outcome'],
    ),
    cacheBytes: new Counters(
      'larkway_speech_cache_bytes_total',
      'Bytes of audio given to callers for whom no provider had to make them.',
      ['provider', 'model'],
    ),
    cacheEvictions: new Counters(
      'larkway_speech_cache_evictions_total',
      'Objects of kept speech that were removed to make room.',
      [],
    ),
    audio: new Counters('larkway_audio_seconds_total', 'Seconds of audio that were heard.', OF_ENTRY),
    characters: new Counters(
      'larkway_speech_characters_total',
      'Characters of text that were spoken.',
      OF_ENTRY,
    ),
    images: new Counters('larkway_images_total', 'Images that were made.', OF_ENTRY),
    video: new Counters('larkway_video_seconds_total', 'Seconds of video that were made.', OF_ENTRY),
    spent: new Counters(
      'larkway_spent_usd_total',
      'USD that calls came to; of access="platform" they were taken from credits or trials.',
      ['access', 'provider', 'model'],
    ),
  }
}

class EntrySeries {
  readonly spent: Counter
  readonly #families: Families
  readonly #entry: Entry
  readonly #operations = new Map<OperationName, OperationSeries>()

  constructor(families: Families, entry: Entry) {
    const { provider, model } = entry
    this.spent = families.spent.of(provider.access, provider.name, model)
    this.#families = families
    this.#entry = entry
  }

  at(operation: OperationName): OperationSeries {
    const known = this.#operations.get(operation)
    if (known !== undefined) return known
    const series = new OperationSeries(this.#families, this.#entry, operation)
    this.#operations.set(operation, series)
    return series
  }
}

class OperationSeries {
  readonly #families: Families
  /** Values of `OF_MODEL` and of `OF_ENTRY`. */
  readonly #ofModel: readonly string[]
  readonly #ofEntry: readonly string[]
  readonly #ended = new Map<AttemptOutcome, { readonly seconds: Histogram; readonly count: Counter }>()
  readonly #used = new Map<string, (amount: number) => void>()

  constructor(families: Families, { provider, model }: Entry, operation: OperationName) {
    this.#families = families
    this.#ofModel = [GEN_AI_OPERATION[operation], genAiProvider(provider.kind), model, provider.name]
    this.#ofEntry = [operation, provider.name, model]
  }

  ended(outcome: AttemptOutcome, seconds: number): void {
    let ended = this.#ended.get(outcome)
    if (ended === undefined) {
      const { duration, attempts } = this.#families
      ended = {
        seconds: duration.of(...this.#ofModel, outcome === 'ok' ? '' : outcome),
        count: attempts.of(...this.#ofEntry, outcome),
      }
      this.#ended.set(outcome, ended)
    }
    ended.seconds.observe(seconds)
    ended.count.add(1)
  }

  began(seconds: number): void {
    this.#families.firstChunk.of(...this.#ofModel).observe(seconds)
  }

  failedOver(): void {
    this.#families.failovers.of(...this.#ofEntry).add(1)
  }

  /** @param name of a metering value; those that say the same as another one are not counted */
  used(name: string, amount: number): void {
    let count = this.#used.get(name)
    if (count === undefined) {
      count = this.#countOf(name)
      this.#used.set(name, count)
    }
    count(amount)
  }

  #countOf(name: string): (amount: number) => void {
    const { audio, characters, images, video } = this.#families
    const counts = (family: Counters) => {
      const counter = family.of(...this.#ofEntry)
      return (amount: number) => counter.add(amount)
    }
    if (name === 'audio_seconds') return counts(audio)
    if (name === 'audio_output_characters') return counts(characters)
    if (name === 'images') return counts(images)
    if (name === 'video_seconds') return counts(video)
    if (name === 'input_tokens') return this.#tokens('input')
    return name === 'output_tokens' ? this.#tokens('output') : () => {}
  }

  #tokens(type: 'input' | 'output'): (amount: number) => void {
    const histogram = this.#families.tokens.of(...this.#ofModel, type)
    return (amount) => histogram.observe(amount)
  }
}
