import type { Entry } from '../../../contracts/catalog.ts'
import type { LiveEntry, SessionEnd, SessionKind } from '../../../contracts/live.ts'
import { SESSION_ENDS, SESSION_KINDS } from '../../../contracts/live.ts'
import type { LiveText, LiveWatch, SwitchReason } from '../../../contracts/watch.ts'
import { type Counter, Counters, type Histogram, Histograms, type Rendered } from './family.ts'

const LATENCY_SECONDS = [0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 40]
const CONNECT_SECONDS = [0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8]
const OF_ENTRY = ['provider', 'model']

/** Counts what becomes of live sessions, per route entry. */
export class LiveMetrics implements LiveWatch {
  readonly #families = liveFamilies()
  /** An entry belongs to a snapshot; one of the same name in the next snapshot counts on. */
  readonly #entries = new WeakMap<Entry, LiveSeries>()

  constructor() {
    for (const kind of SESSION_KINDS) for (const how of SESSION_ENDS) this.#families.ended.of(kind, how)
  }

  connected(entry: Entry, seconds: number): void {
    this.#of(entry).connect.observe(seconds)
  }

  open(entry: Entry, seconds: number): void {
    this.#of(entry).seconds.add(seconds)
  }

  switched(from: Entry, reason: SwitchReason): void {
    this.#families.switches.of(from.provider.name, from.model, reason).add(1)
  }

  replayed(entry: Entry, seconds: number): void {
    this.#of(entry).replayed.add(seconds)
  }

  lost(entry: Entry, seconds: number): void {
    this.#of(entry).lost.add(seconds)
  }

  heard(entry: Entry, text: LiveText, seconds: number): void {
    this.#of(entry)[text].observe(seconds)
  }

  ended(kind: SessionKind, how: SessionEnd): void {
    this.#families.ended.of(kind, how).add(1)
  }

  spoke({ provider, model }: LiveEntry, characters: number, firstAudioSeconds: number): void {
    this.#families.characters.of(provider, model).add(characters)
    this.#families.firstAudio.of(provider, model).observe(firstAudioSeconds)
    // A rate needs a zero before the first one.
    this.#families.revoiced.of(provider, model)
  }

  revoiced({ provider, model }: LiveEntry): void {
    this.#families.revoiced.of(provider, model).add(1)
  }

  get families(): readonly Rendered[] {
    return Object.values(this.#families)
  }

  #of(entry: Entry): LiveSeries {
    const known = this.#entries.get(entry)
    if (known !== undefined) return known
    const series = seriesOf(this.#families, entry)
    this.#entries.set(entry, series)
    return series
  }
}

type Families = ReturnType<typeof liveFamilies>

function liveFamilies() {
  return {
    ended: new Counters('larkway_live_sessions_ended_total', 'Live sessions that ended, by why.', [
      'kind',
      'end',
    ]),
    seconds: new Counters(
      'larkway_live_session_seconds_total',
      'Seconds for which live sessions were connected to an entry.',
      OF_ENTRY,
    ),
    switches: new Counters(
      'larkway_live_switches_total',
      'Connections of live sessions that were given up for another one, by why.',
      [...OF_ENTRY, 'reason'],
    ),
    replayed: new Counters(
      'larkway_live_replayed_seconds_total',
      'Seconds of audio that an entry was sent because another connection had not settled them.',
      OF_ENTRY,
    ),
    lost: new Counters(
      'larkway_live_lost_seconds_total',
      'Seconds of audio that an entry could not be sent, since they were no longer kept.',
      OF_ENTRY,
    ),
    latency: new Histograms(
      'larkway_live_text_latency_seconds',
      'Age of the newest audio that a partial or final text is of, when it came from the provider.',
      [...OF_ENTRY, 'text'],
      LATENCY_SECONDS,
    ),
    connect: new Histograms(
      'larkway_live_connect_seconds',
      'Seconds from the beginning of a connection to a provider until it took audio.',
      OF_ENTRY,
      CONNECT_SECONDS,
    ),
    characters: new Counters(
      'larkway_live_spoken_characters_total',
      'Characters of sentences that live sessions had an entry speak to their end.',
      OF_ENTRY,
    ),
    firstAudio: new Histograms(
      'larkway_live_first_audio_seconds',
      'Seconds from asking for a sentence until its first audio was here, entries that failed it included.',
      OF_ENTRY,
      CONNECT_SECONDS,
    ),
    revoiced: new Counters(
      'larkway_live_voice_switches_total',
      'Sentences of live sessions that another entry spoke than the one before, by that.',
      OF_ENTRY,
    ),
  }
}

interface LiveSeries {
  readonly seconds: Counter
  readonly replayed: Counter
  readonly lost: Counter
  readonly connect: Histogram
  readonly partial: Histogram
  readonly final: Histogram
}

function seriesOf(families: Families, { provider: { name }, model }: Entry): LiveSeries {
  return {
    seconds: families.seconds.of(name, model),
    replayed: families.replayed.of(name, model),
    lost: families.lost.of(name, model),
    connect: families.connect.of(name, model),
    partial: families.latency.of(name, model, 'partial'),
    final: families.latency.of(name, model, 'final'),
  }
}
