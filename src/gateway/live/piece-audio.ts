import { type Audio, BLOCK_BYTES, type Block } from '../../contracts/audio.ts'
import type { LiveAudio } from '../../contracts/calls.ts'
import { wavHeadOf } from '../../contracts/live-audio.ts'
import { converter } from '../media/pcm.ts'
import { SOUND } from './feed.ts'

/** How finely loudness is looked at. */
const BLOCK_SECONDS = 0.02

/** Live audio as what files are made of; valid until its bytes change. */
export function toPcm(bytes: Uint8Array, audio: LiveAudio): Uint8Array {
  const convert = converter(audio, { ...audio, encoding: 'pcm_s16le' })
  return convert === null ? bytes : convert(bytes)
}

/** How long a piece is to be. */
export interface PieceLengths {
  readonly leastSeconds: number
  readonly mostSeconds: number
  /** Silence that ends an utterance. */
  readonly pauseSeconds: number
}

/**
 * Seconds at which audio is cut so that no word is: in the last pause behind the shortest piece; when there is as much
 * as fits a piece, in the longest silence, or where it is least loud.
 *
 * @param pcm samples of 16 bits
 * @returns null: it is better to wait for more
 */
export function cutSeconds(pcm: Uint8Array, audio: LiveAudio, lengths: PieceLengths): number | null {
  const { leastSeconds, mostSeconds, pauseSeconds } = lengths
  const size = Math.round(BLOCK_SECONDS * audio.sampleRate)
  const blockSeconds = size / audio.sampleRate
  const levels = levelsOf(pcm, size * audio.channels)
  const silences = silencesIn(levels)
  const isFull = pcm.length >= wholeFrames(mostSeconds, audio) * audio.channels * 2
  const from = (isFull ? mostSeconds / 3 : leastSeconds) / blockSeconds
  const behind = silences.filter((silence) => middleOf(silence) >= from)
  if (isFull) {
    const longest = behind.toSorted((a, b) => b.end - b.start - (a.end - a.start))[0]
    return (longest === undefined ? quietest(levels, from) : middleOf(longest)) * blockSeconds
  }
  // Silence alone is the end of nothing.
  if (silences[0]?.start === 0 && silences[0].end === levels.length) return null
  const pause = behind.findLast(({ start, end }) => (end - start) * blockSeconds >= pauseSeconds)
  return pause === undefined ? null : middleOf(pause) * blockSeconds
}

/** Mean loudness of each block of so many samples, of 32,768. */
function levelsOf(pcm: Uint8Array, size: number): Float64Array {
  const { buffer, byteOffset } = pcm.byteOffset % 2 === 0 ? pcm : Uint8Array.from(pcm)
  const samples = new Int16Array(buffer, byteOffset, pcm.length >> 1)
  const levels = new Float64Array(Math.floor(samples.length / size))
  for (let block = 0; block < levels.length; block += 1) {
    let sum = 0
    for (let at = block * size; at < (block + 1) * size; at += 1) sum += Math.abs(samples[at]!)
    levels[block] = sum / size
  }
  return levels
}

/** Blocks from the first to the one behind the last. */
interface Silence {
  readonly start: number
  readonly end: number
}

function middleOf({ start, end }: Silence): number {
  return (start + end) / 2
}

function silencesIn(levels: Float64Array): readonly Silence[] {
  const silences: Silence[] = []
  let start: number | null = null
  for (let block = 0; block <= levels.length; block += 1) {
    if (block < levels.length && levels[block]! < SOUND) start ??= block
    else if (start !== null) {
      silences.push({ start, end: block })
      start = null
    }
  }
  return silences
}

function quietest(levels: Float64Array, from: number): number {
  let best = Math.floor(from)
  for (let block = best; block < levels.length; block += 1) if (levels[block]! < levels[best]!) best = block
  return best + 0.5
}

/** Samples of each channel in so many seconds. */
export function wholeFrames(seconds: number, { sampleRate }: LiveAudio): number {
  return Math.round(seconds * sampleRate)
}

/** A piece as the audio of a call: a WAV file in memory of its own. @param pcm samples of 16 bits */
export function fileOf(pcm: Uint8Array, audio: LiveAudio): Audio {
  const file = Buffer.concat([wavHeadOf(audio, pcm.length), pcm])
  const blocks: Block[] = []
  for (let at = 0; at < file.length; at += BLOCK_BYTES) {
    const block = new Uint8Array(new SharedArrayBuffer(Math.min(BLOCK_BYTES, file.length - at)))
    block.set(file.subarray(at, at + block.length))
    blocks.push(block)
  }
  return {
    source: { kind: 'memory', blocks },
    offset: 0,
    length: file.length,
    encoding: 'identity',
    decodedBytes: file.length,
    canonical: true,
    mediaType: 'audio/wav',
    filename: null,
    format: 'wav',
    durationSeconds: pcm.length / 2 / audio.channels / audio.sampleRate,
    channels: audio.channels,
  }
}
