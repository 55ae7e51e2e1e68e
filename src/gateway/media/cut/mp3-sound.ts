import { indexOf } from '../bytes.ts'
import { headerFrame } from '../mp3.ts'
import { MPEG_FRAME_MAX_BYTES, type MpegFrame, mpegFrame, sameStream } from '../mpeg-frame.ts'
import type { ByteStream } from './byte-stream.ts'
import type { Packet, Sound, SoundWriter } from './sound.ts'
import { BY_GAIN, levelOfSize, NO_SOUND, Uncuttable } from './sound.ts'

/** Room for a frame and the header of the next. */
const STEP_BYTES = MPEG_FRAME_MAX_BYTES + 4
const RUN_FRAMES = 4
const RUN_BYTES = RUN_FRAMES * STEP_BYTES
/** Lines of the spectrum of a granule. */
const LINES = 576

/** MPEG audio of any layer: frames follow one another, and any run of them is a file. */
export async function openMp3(stream: ByteStream): Promise<Sound> {
  const first = await nextFrame(stream, null)
  if (first === null) throw new Uncuttable('no frame of MPEG audio')
  const isHeader = headerFrame(stream.view, 0, first) !== null
  const delaySamples = isHeader ? delayIn(stream.view.subarray(0, first.bytes)) : 0
  if (isHeader) stream.skip(first.bytes)
  return {
    rate: first.sampleRate,
    // Decoders of the whole leave out what its header says; those of a part know nothing of it.
    startSeconds: -delaySamples / first.sampleRate,
    ...BY_GAIN,
    level: ({ bytes, ticks }) => mp3Level(bytes) ?? levelOfSize(bytes.length, ticks / first.sampleRate),
    packets: () => frames(stream, first),
    begin: () => new RawWriter(),
  }
}

/** Samples that decoders add in front by themselves. */
const DECODER_DELAY = 529

/** Samples at the beginning that are not played, by LAME's tag: 12 bits behind its name and 17 bytes of facts. */
function delayIn(frame: Uint8Array): number {
  const at = ['LAME', 'Lavc', 'Lavf'].map((name) => indexOf(frame, name, 0)).find((place) => place > 0)
  if (at === undefined) return 0
  const delay = bitsAt(frame, (at + 21) * 8, 12)
  return delay === 0 ? 0 : delay + DECODER_DELAY
}

async function* frames(stream: ByteStream, first: MpegFrame): AsyncGenerator<Packet> {
  for (;;) {
    const frame = await nextFrame(stream, first)
    if (frame === null) return
    yield { bytes: stream.view.subarray(0, frame.bytes), ticks: frame.samples }
    stream.skip(frame.bytes)
  }
}

/**
 * Moves on to the next whole frame. One right here counts by its header; behind anything else another one has to
 * follow it.
 */
async function nextFrame(stream: ByteStream, like: MpegFrame | null): Promise<MpegFrame | null> {
  let passed = 0
  for (;;) {
    let view = stream.view.length < STEP_BYTES ? await stream.fill(STEP_BYTES) : stream.view
    let at = 0
    for (; at + 4 <= view.length; at += 1) {
      const frame = mpegFrame(view, at)
      if (frame === null) continue
      if (like !== null && !sameStream(frame, like)) {
        // Bytes that are passed over must not stay at hand.
        if (at + RUN_BYTES > view.length && at > 0 && !stream.ended) break
        view = await stream.fill(at + RUN_BYTES)
        if (isRun(view, at)) throw new Uncuttable('streams that follow one another')
        continue
      }
      if (at + frame.bytes > view.length) {
        if (!stream.ended) break
        continue
      }
      const isAlone = passed + at > 0 || like === null
      if (isAlone && at + frame.bytes + 4 > view.length && !stream.ended) break
      if (isAlone && !isFollowed(view, at, frame, stream.ended)) continue
      stream.skip(at)
      return frame
    }
    if (stream.ended && stream.view.length < STEP_BYTES) return null
    passed += at
    stream.skip(at)
    if (at === 0) await stream.fill(stream.view.length + 1)
  }
}

/** Whether so many frames of one stream are there that they are no chance. */
function isRun(view: Uint8Array, from: number): boolean {
  const first = mpegFrame(view, from)
  let at = from
  for (let count = 0; count < RUN_FRAMES; count += 1) {
    const frame = mpegFrame(view, at)
    if (first === null || frame === null || !sameStream(frame, first)) return false
    at += frame.bytes
  }
  return true
}

function isFollowed(view: Uint8Array, at: number, frame: MpegFrame, isLast: boolean): boolean {
  const end = at + frame.bytes
  if (isLast && end + 4 > view.length) return true
  const next = mpegFrame(view, end)
  return next !== null && sameStream(next, frame)
}

/**
 * Loudness of a frame of layer III by the gains of its granules and the bits in them; null: it is of another layer
 * (ISO/IEC 11172-3, 2.4.1.7).
 */
export function mp3Level(bytes: Uint8Array): number | null {
  const frame = mpegFrame(bytes, 0)
  if (frame === null || frame.layer !== 3) return null
  const { channels, version } = frame
  const isFull = version === 1
  const side = (4 + ((bytes[1]! & 1) === 0 ? 2 : 0)) * 8
  const head = isFull ? 9 + (channels === 1 ? 5 : 3) + 4 * channels : 8 + channels
  const [granules, granuleBits] = isFull ? [2, 59] : [1, 63]
  let loudest = NO_SOUND
  for (let index = 0; index < granules * channels; index += 1) {
    const at = side + head + index * granuleBits
    const used = bitsAt(bytes, at, 12)
    if (used === 0) continue
    const gain = bitsAt(bytes, at + 21, 8) - 210
    loudest = Math.max(loudest, gain * GAIN_DB + (used / LINES) * LINE_BIT_DB)
  }
  return loudest
}

class RawWriter implements SoundWriter {
  bytes = 0

  add({ bytes }: Packet): readonly Uint8Array[] {
    this.bytes += bytes.length
    return [bytes]
  }

  end() {
    return { head: new Uint8Array(0), tail: [] }
  }
}

/** A step of the gain of a granule, dB: a quarter of a doubling. */
const GAIN_DB = 1.505
/**
 * A bit of a line of its spectrum, dB: what is quantized to numbers of so many bits is raised to the power of 4/3. The
 * gain alone says little: a pure tone has a small one and large numbers.
 */
const LINE_BIT_DB = 8

/** Unsigned number of up to 32 bits, from a place counted in bits; bits past the end are zero. */
function bitsAt(bytes: Uint8Array, at: number, count: number): number {
  let value = 0
  for (let bit = at; bit < at + count; bit += 1)
    value = value * 2 + (((bytes[bit >>> 3] ?? 0) >>> (7 - (bit & 7))) & 1)
  return value
}
