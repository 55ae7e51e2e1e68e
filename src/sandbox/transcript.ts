import { loudnessOf } from './beeps.ts'
import { hear } from './hear.ts'
import { type Recording, readWav } from './wav.ts'

/** A segment of a transcript; seconds. */
export interface TranscriptSegment {
  readonly start: number
  readonly end: number
  readonly text: string
  /** `A`, `B`, … in order of appearance: one for each tone. */
  readonly speaker: string
}

export interface Transcript {
  readonly text: string
  /** Null where the container is not looked into. */
  readonly durationSeconds: number | null
  readonly segments: readonly TranscriptSegment[]
  readonly words: readonly { readonly word: string; readonly start: number; readonly end: number }[]
  /** What the bytes were found to be; `x_sandbox` in JSON answers. */
  readonly facts: Readonly<Record<string, string | number | null>>
}

/** Under this the recording is silent: a hundred-thousandth of full scale, half of a 16-bit step. */
const SILENCE = 1e-5

/**
 * What is heard in a file: the text of its Morse code; of any other wav, how long and how loud it is; of any
 * other container, its size and format. Null when the bytes are no audio at all.
 */
export function transcribe(file: Buffer): Transcript | null {
  const format = formatOf(file)
  if (format === null) return null
  const recording = format === 'wav' ? readWav(file) : null
  if (recording === null) {
    const facts = { format, sample_rate: null, channels: null, seconds: null, dbfs: null }
    return describe(`${file.length} bytes of ${format}`, null, facts)
  }
  const seconds = round((recording.channels[0]?.length ?? 0) / recording.sampleRate)
  const loudness = loudnessOf(recording)
  const dbfs = loudness < SILENCE ? null : Number((20 * Math.log10(loudness)).toFixed(1))
  const facts = {
    format,
    sample_rate: recording.sampleRate,
    channels: recording.channels.length,
    seconds,
    dbfs,
  }
  return (
    readMorse(recording, seconds, facts) ?? describe(sentenceOf(recording, seconds, dbfs), seconds, facts)
  )
}

function readMorse(recording: Recording, seconds: number, facts: Transcript['facts']): Transcript | null {
  const heard = hear(recording)
  if (heard === null) return null
  const tones = [...new Set(heard.map(({ hertz }) => hertz))]
  const segments = heard.map(({ start, end, hertz, words }) => ({
    start: round(start),
    end: round(end),
    text: words.map((word) => word.text).join(' '),
    speaker: String.fromCharCode('A'.charCodeAt(0) + tones.indexOf(hertz)),
  }))
  const words = heard
    .flatMap((segment) => segment.words)
    .map(({ text, start, end }) => ({ word: text, start: round(start), end: round(end) }))
  const text = segments.map((segment) => segment.text).join(' ')
  return {
    text,
    durationSeconds: seconds,
    segments,
    words,
    facts: { ...facts, tones_hertz: tones.join(', ') },
  }
}

/** A text about the audio, so each of its words is about all of it. */
function describe(text: string, seconds: number | null, facts: Transcript['facts']): Transcript {
  const span = { start: 0, end: seconds ?? 0 }
  const words = text.split(' ').map((word) => ({ word, ...span }))
  return { text, durationSeconds: seconds, segments: [{ ...span, text, speaker: 'A' }], words, facts }
}

function sentenceOf({ channels, sampleRate }: Recording, seconds: number, dbfs: number | null): string {
  const sound = dbfs === null ? 'silence' : `sound without morse code at ${dbfs} dbfs`
  const count = channels.length === 1 ? '1 channel' : `${channels.length} channels`
  return `${seconds} seconds of ${sound} in ${count} of ${sampleRate} hz`
}

/** The container by its first bytes. */
function formatOf(file: Buffer): string | null {
  const head = file.toString('latin1', 0, 12)
  if (head.startsWith('RIFF') && head.endsWith('WAVE')) return 'wav'
  if (head.startsWith('fLaC')) return 'flac'
  if (head.startsWith('OggS')) return 'ogg'
  if (head.startsWith('ID3')) return 'mp3'
  if (head.slice(4, 8) === 'ftyp') return 'mp4'
  if (head.startsWith('\x1aE\xdf\xa3')) return 'webm'
  // A frame of MPEG audio: eleven bits set, and a layer.
  const [first = 0, second = 0] = file
  return first === 0xff && (second & 0xe0) === 0xe0 && (second & 0x06) !== 0 ? 'mp3' : null
}

function round(seconds: number): number {
  return Number(seconds.toFixed(3))
}
