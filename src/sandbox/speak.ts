import { encodeMorse, type Mark, unitSeconds } from './morse.ts'
import { writeWav } from './wav.ts'

/** Voices are OpenAI's, so that calls can be moved over; each is a tone, in Hz, that telephone bandwidth carries. */
export const VOICES: Readonly<Record<string, number>> = {
  alloy: 600,
  ash: 450,
  ballad: 500,
  cedar: 400,
  coral: 700,
  echo: 550,
  fable: 650,
  marin: 800,
  nova: 850,
  onyx: 350,
  sage: 750,
  shimmer: 900,
  verse: 950,
}

const SAMPLE_RATE = 8000
const AMPLITUDE = 0.5 * 32_767
/** Rise and fall of a tone, so that it does not click; shorter where the unit is short. */
const RAMP_SECONDS = 0.004
/** Silence before and after, units. */
const MARGIN_UNITS = 7

/** Largest file that is made, bytes: what the transcription endpoint would take back. */
export const SPEECH_MAX_BYTES = 26_214_400

/** The speech would be over SPEECH_MAX_BYTES. */
export class TooLongError extends Error {
  override readonly name = 'TooLongError'
}

/**
 * Morse code in a wav file: 8 kHz, 16 bits, mono. The tone's phase runs through the gaps, so its spectrum is
 * one line.
 *
 * @param hertz tone, a multiple of 50
 * @param speed 1 is 25 words per minute
 * @throws UnspeakableError, TooLongError
 */
export function speak(text: string, hertz: number, speed: number): Buffer {
  return writeWav(speakSamples(text, hertz, speed, SAMPLE_RATE), SAMPLE_RATE)
}

/**
 * Samples of Morse code, with silence of a word gap at either end.
 *
 * @param hertz tone, a multiple of 50
 * @param sampleRate a multiple of 25
 * @throws UnspeakableError, TooLongError
 */
export function speakSamples(text: string, hertz: number, speed: number, sampleRate: number): Int16Array {
  const marks = encodeMorse(text)
  const unit = unitSeconds(speed) * sampleRate
  const length = Math.round(unitsOf(marks) * unit)
  if (length * 2 > SPEECH_MAX_BYTES)
    throw new TooLongError(`the speech would be over ${SPEECH_MAX_BYTES} bytes`)

  const samples = new Int16Array(length)
  const period = waveOf(hertz, sampleRate)
  const ramp = Math.min(RAMP_SECONDS * sampleRate, unit / 4)
  let passed = MARGIN_UNITS
  for (const { tone, units: held } of marks) {
    const start = passed * unit
    passed += held
    const end = passed * unit
    if (!tone) continue
    // Ramps are centred on the edges, so a tone at half its strength lasts exactly its units.
    for (let at = Math.ceil(start - ramp / 2); at < end + ramp / 2; at += 1) {
      const edge = 0.5 + Math.min(at - start, end - at) / ramp
      const envelope = edge >= 1 ? 1 : 0.5 - 0.5 * Math.cos(Math.PI * edge)
      samples[at] = Math.round(AMPLITUDE * envelope * (period[at % period.length] ?? 0))
    }
  }
  return samples
}

/** Whole periods of a tone that is a multiple of 50 Hz: 320 samples at 8 kHz. */
function waveOf(hertz: number, sampleRate: number): Float64Array {
  return Float64Array.from({ length: sampleRate / 25 }, (_, at) =>
    Math.sin((2 * Math.PI * hertz * at) / sampleRate),
  )
}

/** All that sounds, and the silence before and after. */
function unitsOf(marks: readonly Mark[]): number {
  return marks.reduce((sum, { units }) => sum + units, 2 * MARGIN_UNITS)
}

/** When each character is heard, seconds from the beginning. */
interface HeardCharacters {
  readonly characters: string[]
  readonly starts: number[]
  readonly ends: number[]
}

/**
 * When each character of a text sounds in `speak`: from its first tone to the end of its last. White space lasts from
 * the word before it to the next, and what comes of it after the first, like an accent of its own, no time.
 *
 * @throws UnspeakableError
 */
export function heardCharacters(text: string, speed: number): HeardCharacters {
  const marks = encodeMorse(text)
  const unit = unitSeconds(speed)
  const sounds = soundsOf(marks)
  const wholeUnits = unitsOf(marks)
  const heard: HeardCharacters = { characters: [], starts: [], ends: [] }
  let passed = 0
  let next = 0
  for (const character of text) {
    let [start, end] = [passed, passed]
    const sound = sounds[next]
    if (/\s/.test(character)) end = sound?.start ?? wholeUnits
    else if (!/\p{M}/u.test(character) && sound !== undefined) {
      start = sound.start
      end = sound.end
      next += 1
    }
    heard.characters.push(character)
    heard.starts.push(start * unit)
    heard.ends.push(end * unit)
    passed = end
  }
  return heard
}

/** Where each character that Morse code has is in the marks of a text, units from the beginning. */
function soundsOf(marks: readonly Mark[]): { readonly start: number; end: number }[] {
  const sounds: { readonly start: number; end: number }[] = []
  let passed = MARGIN_UNITS
  let goesOn = false
  for (const { tone, units } of marks) {
    const start = passed
    passed += units
    const last = sounds.at(-1)
    if (!tone) goesOn = units === 1
    else if (goesOn && last !== undefined) last.end = passed
    else sounds.push({ start, end: passed })
  }
  return sounds
}
