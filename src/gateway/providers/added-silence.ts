import type { LiveAudio } from '../../contracts/calls.ts'
import { bytesPerSecond } from '../../contracts/live-audio.ts'
import { silence } from './live.ts'

/** Silence that a provider is sent beside the caller's audio, and the provider's times without it. */
export class AddedSilence {
  readonly #audio: LiveAudio
  /** Behind how many seconds of the caller's audio, and how much. */
  readonly #added: { readonly at: number; seconds: number }[] = []
  #seconds = 0

  constructor(audio: LiveAudio) {
    this.#audio = audio
  }

  /** All of it so far. */
  get seconds(): number {
    return this.#seconds
  }

  /** Makes at least so much. @param at seconds of the caller's audio that were sent before it */
  make(seconds: number, at: number): Uint8Array {
    const quiet = silence(this.#audio, seconds)
    const length = quiet.byteLength / bytesPerSecond(this.#audio)
    const last = this.#added.at(-1)
    if (last?.at === at) last.seconds += length
    else this.#added.push({ at, seconds: length })
    this.#seconds += length
    return quiet
  }

  /** Where a time of the provider's is in the caller's audio. */
  placeOf(time: number): number {
    let place = time
    for (const { at, seconds } of this.#added) if (place > at) place = Math.max(at, place - seconds)
    return place
  }
}
