import { encodeMorse, unitSeconds } from '../../src/sandbox/morse.ts'
import { speakSamples } from '../../src/sandbox/speak.ts'

export interface TimedWord {
  readonly word: string
  /** Seconds. */
  readonly start: number
  readonly end: number
}

export interface LiveAudio {
  /** Little-endian samples of 16 bits, mono. */
  readonly pcm: Buffer
  readonly sampleRate: number
  readonly seconds: number
  /** When each word is sent, out of the marks themselves. */
  readonly words: readonly TimedWord[]
}

/** Text in Morse code as raw samples, with silence of a word gap at either end, and the times of its words. */
export function liveAudio(
  text: string,
  {
    sampleRate = 16_000,
    hertz = 600,
    speed = 1,
  }: { sampleRate?: number; hertz?: number; speed?: number } = {},
): LiveAudio {
  const samples = speakSamples(text, hertz, speed, sampleRate)
  const unit = unitSeconds(speed)
  const words: TimedWord[] = []
  let at = 7 * unit
  for (const word of text.toLowerCase().split(/\s+/)) {
    const units = encodeMorse(word).reduce((sum, mark) => sum + mark.units, 0)
    words.push({ word, start: at, end: at + units * unit })
    at += (units + 7) * unit
  }
  return {
    pcm: Buffer.from(samples.buffer, samples.byteOffset, samples.byteLength),
    sampleRate,
    seconds: samples.length / sampleRate,
    words,
  }
}

/** Cuts audio into frames of so many ms, the last one shorter. */
export function* framesOf({ pcm, sampleRate }: LiveAudio, frameMs: number): Generator<Buffer> {
  const bytes = Math.round((sampleRate * frameMs) / 1000) * 2
  for (let at = 0; at < pcm.length; at += bytes) yield pcm.subarray(at, at + bytes)
}

/** Silence in 16 bits, mono. */
export function silence(seconds: number, sampleRate = 16_000): Buffer {
  return Buffer.alloc(Math.round(seconds * sampleRate) * 2)
}

/** Largest difference between the times of words and the true ones, seconds; NaN for another number of words. */
export function timesOff(
  found: readonly { start: number; end: number }[],
  words: readonly TimedWord[],
): number {
  if (found.length !== words.length) return Number.NaN
  return Math.max(
    ...words.flatMap(({ start, end }, at) => [
      Math.abs(found[at]!.start - start),
      Math.abs(found[at]!.end - end),
    ]),
  )
}
