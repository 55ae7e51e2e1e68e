import { fixture } from './fixtures.ts'

/** How a program stream is written. */
export interface ProgramStreamOptions {
  /** Of ISO/IEC 11172-1 or 13818-1. */
  readonly version: 1 | 2
  /** Bytes of audio a packet; frames are cut wherever they end. */
  readonly packetBytes: number
  /** Packets of video before each of audio. */
  readonly video?: number
  /** Of the audio stream, 0xc0 to 0xdf. */
  readonly stream?: number
}

/** A program stream of MPEG audio: packs of one packet of audio each, with some of video between them. */
export function programStream(audio: Uint8Array, options: ProgramStreamOptions): Buffer {
  const { version, packetBytes, video = 0, stream = 0xc0 } = options
  const parts: Buffer[] = []
  for (let at = 0; at < audio.length; at += packetBytes) {
    parts.push(pack(version))
    // Start codes of a picture stand inside, as they do in real files.
    for (let count = 0; count < video; count += 1)
      parts.push(packet(version, 0xe0, Buffer.from('000001b3140000000001000000', 'hex')))
    parts.push(packet(version, stream, audio.subarray(at, at + packetBytes)))
  }
  parts.push(Buffer.from([0, 0, 1, 0xb9]))
  return Buffer.concat(parts)
}

function pack(version: 1 | 2): Buffer {
  return version === 1
    ? Buffer.from('000001ba2100010001800001', 'hex')
    : Buffer.from('000001ba44000400040100000300', 'hex').fill(0xf8, 13)
}

function packet(version: 1 | 2, stream: number, payload: Uint8Array): Buffer {
  // MPEG-1: two bytes of stuffing, the size of a buffer, a time; MPEG-2: flags, a length, a time.
  const header = Buffer.from(version === 1 ? 'ffff60202100010001' : '8080052100010001', 'hex')
  const start = Buffer.from([0, 0, 1, stream, 0, 0])
  start.writeUInt16BE(header.length + payload.length, 4)
  return Buffer.concat([start, header, payload])
}

/** Two seconds of MPEG-1 audio, layer II, as the fixture says. */
export const LAYER_II = fixture('mp3-layer2.mp3')
export const LAYER_III = fixture('mp3-cbr-bare.mp3')
