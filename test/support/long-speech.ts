import { speak } from '../../src/sandbox/speak.ts'
import { wavHead } from './wav.ts'

const SAMPLE_RATE = 8000
const HEAD_BYTES = 44
/** Tone and speed of the words. */
const HERTZ = 600
const SPEED = 2
/** Silence in front of a word, with that of the spoken one. */
const LEAD_SECONDS = 0.5

/** The nth of many words of three letters. */
export function wordAt(index: number): string {
  const digits = index.toString(26).padStart(3, '0')
  return [...digits].map((digit) => String.fromCharCode(97 + Number.parseInt(digit, 26))).join('')
}

/** A wav file of words in Morse code, one every `everySeconds`, with nothing between them. */
export function spokenWords(count: number, everySeconds: number): Buffer {
  const data = Buffer.alloc(Math.round(count * everySeconds * SAMPLE_RATE) * 2)
  for (let index = 0; index < count; index += 1) {
    const samples = speak(wordAt(index), HERTZ, SPEED).subarray(HEAD_BYTES)
    samples.copy(data, Math.round((index * everySeconds + LEAD_SECONDS) * SAMPLE_RATE) * 2)
  }
  return Buffer.concat([wavHead({ sampleRate: SAMPLE_RATE, dataBytes: data.length }), data])
}
