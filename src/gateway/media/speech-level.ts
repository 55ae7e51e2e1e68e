import type { AudioReader, AudioRef } from '../../contracts/audio.ts'
import { TimeSlices } from '../../contracts/time-slices.ts'
import { converter, samplesOf, WholeFrames } from './pcm.ts'
import { readWavHead } from './wav-head.ts'

/** Larger audio is not measured: it would be read once more for it. */
const AUDIO_MAX_BYTES = 64 * 1024 * 1024
/** Chunks in front of the samples. */
const HEAD_BYTES = 64 * 1024
const FRAMES_PER_SECOND = 50
/** Below this no frame counts as speech: what rooms and converters make by themselves, dB of full scale. */
const SILENCE_DB = -55
/** Speech rises that far over what is between the words: steady noise does not. */
const RISE_DB = 6
/** Place of the noise floor among the frames, from the quietest. */
const FLOOR_SHARE = 0.1
/** Range of the histogram of levels, dB under full scale; what is quieter counts as this. */
const RANGE_DB = 96
const STEPS_PER_DB = 2

/**
 * Measures how many seconds of a wav file can be speech: frames of 20 ms that are loud enough, and louder than its
 * noise floor. Silence, hum and steady noise have none; speech, music and Morse have.
 *
 * @returns null where it is not measured: another format, or over 64 MiB
 * @throws the reader's errors
 */
export async function speechSeconds(
  reader: AudioReader,
  audio: AudioRef,
  signal: AbortSignal,
): Promise<number | null> {
  if (audio.decodedBytes > AUDIO_MAX_BYTES) return null
  const head = readWavHead(Buffer.from(await reader.range(audio, 0, HEAD_BYTES, signal)))
  if (head === null || head === 'incomplete') return null
  const { sampleRate } = head.audio
  const frames = new WholeFrames(head.audio)
  const convert = converter(head.audio, { encoding: 'pcm_s16le', sampleRate, channels: 1 })
  const levels = new Levels(Math.max(1, Math.round(sampleRate / FRAMES_PER_SECOND)))
  const end = head.bytes === null ? audio.decodedBytes : head.start + head.bytes
  let at = 0
  const slices = new TimeSlices()
  for await (const chunk of reader.bytes(audio, signal)) {
    const [from, to] = [Math.max(0, head.start - at), Math.min(chunk.length, end - at)]
    at += chunk.length
    if (from < to) {
      const whole = frames.take(chunk.subarray(from, to))
      levels.push(samplesOf(convert === null ? whole : convert(whole)))
    }
    if (slices.isOver) await slices.next(signal)
  }
  return levels.speechFrames() / FRAMES_PER_SECOND
}

/** Levels of frames, as a histogram: audio of any length takes the same memory. */
class Levels {
  readonly #counts = new Uint32Array(RANGE_DB * STEPS_PER_DB + 1)
  readonly #frameSamples: number
  #squares = 0
  #samples = 0
  #frames = 0

  constructor(frameSamples: number) {
    this.#frameSamples = frameSamples
  }

  push(samples: Int16Array): void {
    for (const sample of samples) {
      this.#squares += sample * sample
      this.#samples += 1
      if (this.#samples === this.#frameSamples) this.#closeFrame()
    }
  }

  /** Frames that can be speech; the end of the audio that fills no frame is none. */
  speechFrames(): number {
    const floor = this.#floor()
    const least = Math.max(binOfLevel(SILENCE_DB), floor + RISE_DB * STEPS_PER_DB)
    return this.#counts.subarray(Math.min(least, this.#counts.length)).reduce((sum, count) => sum + count, 0)
  }

  #closeFrame(): void {
    const mean = this.#squares / this.#samples / (32_768 * 32_768)
    const place = binOfLevel(mean === 0 ? -RANGE_DB : 10 * Math.log10(mean))
    this.#counts[place] = this.#counts[place]! + 1
    this.#squares = 0
    this.#samples = 0
    this.#frames += 1
  }

  #floor(): number {
    let below = this.#frames * FLOOR_SHARE
    for (const [place, count] of this.#counts.entries()) {
      below -= count
      if (below < 0) return place
    }
    return 0
  }
}

function binOfLevel(decibels: number): number {
  return Math.round((Math.min(0, Math.max(-RANGE_DB, decibels)) + RANGE_DB) * STEPS_PER_DB)
}
