import { u16be } from './bytes.ts'
import { type Measure, UNKNOWN } from './measure.ts'
import { findMpegFrame, type MpegFrame, mpegFrame, sameStream } from './mpeg-frame.ts'
import type { AudioWindow } from './window.ts'

const PACK = 0xba
const END = 0xb9
/** Streams of MPEG audio, of any layer. */
const AUDIO_FIRST = 0xc0
const AUDIO_LAST = 0xdf
/** Codes below are of a video stream, and begin no packet of their own here. */
const PACKETS_FIRST = 0xbb
/** A packet is at most its start code, a length of 16 bits, and so many bytes. */
const PACKET_MAX_BYTES = 6 + 0xffff
const STUFFING_MAX = 16
const FRAME_HEADER_BYTES = 4

/** Whether a program stream begins here: its first pack (ISO/IEC 11172-1 section 2.4.3, 13818-1 section 2.5.3). */
export function beginsAsProgramStream(head: Uint8Array): boolean {
  return startCode(head, 0) === PACK
}

/**
 * Counts the frames of the first audio stream of a program stream, with or without video beside it: times in its
 * packets are what a writer says. One pass from the beginning.
 */
export async function probeMpegSystem(window: AudioWindow): Promise<Measure> {
  const frames = new FrameCounter()
  let stream: number | null = null
  for (let at = 0; ; ) {
    const bytes = await window.from(at, PACKET_MAX_BYTES)
    const isLast = at + bytes.length >= window.size
    let index = 0
    while (index + FRAME_HEADER_BYTES <= bytes.length) {
      const code = startCode(bytes, index)
      const packetBytes = code === null ? 0 : packetLength(bytes, index, code)
      if (code === null || packetBytes === 0) {
        index = nextStartCode(bytes, index + 1)
        continue
      }
      // A packet that reaches beyond what is here is looked at again with all of it.
      if (index + packetBytes > bytes.length && !isLast && index > 0) break
      if (code >= AUDIO_FIRST && code <= AUDIO_LAST) {
        stream ??= code
        if (code === stream) frames.push(payloadOf(bytes.subarray(index, index + packetBytes)))
      }
      index += packetBytes
    }
    if (isLast) return frames.end()
    at += index
  }
}

/** The last byte of a start code; null: there is none. */
function startCode(bytes: Uint8Array, at: number): number | null {
  const isOne = bytes[at] === 0 && bytes[at + 1] === 0 && bytes[at + 2] === 1
  return isOne ? (bytes[at + 3] ?? null) : null
}

/** Index of the next start code at or after `from`, or of where one may begin at the end. */
function nextStartCode(bytes: Uint8Array, from: number): number {
  for (let one = bytes.indexOf(1, from + 2); one >= 0; one = bytes.indexOf(1, one + 1))
    if (bytes[one - 1] === 0 && bytes[one - 2] === 0) return one - 2
  return Math.max(from, bytes.length - FRAME_HEADER_BYTES + 1)
}

/** Bytes of a pack header or a packet; 0 for a start code of something else. */
function packetLength(bytes: Uint8Array, at: number, code: number): number {
  if (code === END) return 4
  if (code >= PACKETS_FIRST) return 6 + u16be(bytes, at + 4)
  if (code !== PACK) return 0
  const first = bytes[at + 4] ?? 0
  if ((first & 0xc0) === 0x40) return 14 + ((bytes[at + 13] ?? 0) & 7)
  return (first & 0xf0) === 0x20 ? 12 : 0
}

/** The bytes of its stream in a packet, after its header: that of MPEG-2 has a length, that of MPEG-1 its parts. */
function payloadOf(packet: Uint8Array): Uint8Array {
  const first = packet[6] ?? 0
  if ((first & 0xc0) === 0x80) return packet.subarray(9 + (packet[8] ?? 0))
  let at = 6
  while (packet[at] === 0xff && at < 6 + STUFFING_MAX) at += 1
  if (((packet[at] ?? 0) & 0xc0) === 0x40) at += 2
  const marker = (packet[at] ?? 0) & 0xf0
  return packet.subarray(at + (marker === 0x20 ? 5 : marker === 0x30 ? 10 : 1))
}

/** Counts the frames of a stream that comes in parts, which may end anywhere. */
class FrameCounter {
  #first: MpegFrame | null = null
  #last: MpegFrame | null = null
  #seconds = 0
  /** Bytes of the last frame that have not come. */
  #leftBytes = 0
  #inSync = false
  /** The beginning of a header whose end comes with the next part. */
  #rest: Uint8Array = new Uint8Array(0)

  push(part: Uint8Array): void {
    const bytes = this.#rest.length === 0 ? part : Buffer.concat([this.#rest, part])
    let at = 0
    for (;;) {
      const skipped = Math.min(this.#leftBytes, bytes.length - at)
      this.#leftBytes -= skipped
      at += skipped
      if (bytes.length - at < FRAME_HEADER_BYTES) break
      const frame = this.#frameAt(bytes, at)
      if (frame === null) {
        // Elsewhere a header counts where others follow on it.
        this.#inSync = false
        const found = findMpegFrame(bytes, at + 1, bytes.length)
        if (found < 0) {
          at = bytes.length - FRAME_HEADER_BYTES + 1
          break
        }
        at = found
        this.#inSync = true
        continue
      }
      this.#first ??= frame
      this.#last = frame
      this.#inSync = true
      this.#seconds += frame.samples / frame.sampleRate
      this.#leftBytes = frame.bytes
    }
    this.#rest = bytes.slice(at)
  }

  end(): Measure {
    if (this.#first === null) return UNKNOWN
    // The last frame may be cut short; then nothing of it can be heard.
    const { samples, sampleRate } = this.#last!
    const cut = this.#leftBytes > 0 ? samples / sampleRate : 0
    const seconds = this.#seconds - cut
    return { channels: this.#first.channels, durationSeconds: seconds > 0 ? seconds : null }
  }

  #frameAt(bytes: Uint8Array, at: number): MpegFrame | null {
    const frame = mpegFrame(bytes, at)
    if (frame === null || (this.#first !== null && !sameStream(this.#first, frame))) return null
    if (this.#inSync) return frame
    return findMpegFrame(bytes, at, 0) === at ? frame : null
  }
}
