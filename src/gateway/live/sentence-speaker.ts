import type { CancelSignal } from '../../contracts/cancellation.ts'
import type { Streaming } from '../call/attempt/stream.ts'
import { isUpstream } from '../call/context/upstream-errors.ts'
import { entryName, type SentenceCall, type SpeechCalls } from './speech-calls.ts'
import type { SpeechOutput } from './speech-output.ts'
import type { SpeechReport } from './speech-report.ts'
import type { Sentence, SpeechText } from './speech-text.ts'

interface SpeakerDependencies {
  readonly text: SpeechText
  readonly calls: SpeechCalls
  readonly output: SpeechOutput
  readonly report: SpeechReport
  /** Aborted when the session ends. */
  readonly signal: CancelSignal
}

/** Speaks sentences one at a time. While one is played out, the next is asked for already, and no other. */
export class SentenceSpeaker {
  readonly #of: SpeakerDependencies
  /** Audio of a sentence comes. */
  #isPlaying = false

  constructor(deps: SpeakerDependencies) {
    this.#of = deps
  }

  /**
   * Speaks one sentence. When it breaks off before any of its audio was sent, another entry speaks it; afterwards no
   * entry could continue at the same place.
   *
   * @throws GatewayError with what was heard of it
   */
  async speak(sentence: Sentence): Promise<void> {
    const { calls, report, signal } = this.#of
    const failed = new Set<string>()
    for (;;) {
      const call = sentence.call ?? this.#ask(sentence, failed)
      try {
        const streaming = await call.streaming
        try {
          await this.#play(sentence, streaming)
          if (sentence.isDropped) return calls.settle(call)
          return this.#spoken(sentence, call, streaming)
        } catch (thrown) {
          calls.settle(call)
          const { provider, model } = streaming.head
          failed.add(entryName(provider, model))
          if (sentence.audioBytes > 0 || sentence.isDropped || !isUpstream(thrown)) throw thrown
          sentence.call = null
        }
      } catch (thrown) {
        calls.settle(call)
        if (sentence.isDropped && !signal.aborted) return
        throw report.brokenOff(thrown, sentence)
      }
    }
  }

  /** Asks for the next sentence, unless the caller has not read the audio that there is. */
  askAhead(): void {
    const { text, output, signal } = this.#of
    if (signal.aborted || !this.#isPlaying) return
    const next = text.upcoming
    if (next !== null && next.call === null && !output.isFull) this.#ask(next, NONE)
  }

  #ask(sentence: Sentence, failed: ReadonlySet<string>): SentenceCall {
    const call = this.#of.calls.ask(sentence.text, failed)
    sentence.call = call
    return call
  }

  async #play(sentence: Sentence, { deltas }: Streaming<'speech'>): Promise<void> {
    this.#isPlaying = true
    this.askAhead()
    try {
      await this.#of.output.play(sentence, deltas)
    } finally {
      this.#isPlaying = false
    }
  }

  #spoken(sentence: Sentence, call: SentenceCall, streaming: Streaming<'speech'>): void {
    const { calls, report } = this.#of
    const { envelope, release } = streaming.outcome()
    release()
    calls.settle(call)
    report.spoken(sentence, envelope, calls.secondsOf(call))
  }
}

const NONE: ReadonlySet<string> = new Set()
