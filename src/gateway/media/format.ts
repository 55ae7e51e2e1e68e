import type { AudioFormat } from '../../contracts/audio.ts'
import { indexOf, latin1 } from './bytes.ts'
import { findMpegFrame, MPEG_FRAME_MAX_BYTES } from './mpeg-frame.ts'
import { beginsAsProgramStream } from './mpeg-system.ts'

/** Room that encoders leave between a tag and the first frame. */
export const PADDING_MAX_BYTES = 64 * 1024
/** Bytes needed to be sure of a frame behind such padding. */
export const DETECT_BYTES = PADDING_MAX_BYTES + 4 * MPEG_FRAME_MAX_BYTES
const EBML = '\x1a\x45\xdf\xa3'

/**
 * Bytes of the ID3v2 tag at `at`, header and footer included; 0 when there is none.
 * https://id3.org/id3v2.4.0-structure section 3.1
 */
export function id3v2Bytes(bytes: Uint8Array, at: number): number {
  if (latin1(bytes, at, 3) !== 'ID3' || bytes.length < at + 10) return 0
  let size = 0
  for (let index = at + 6; index < at + 10; index++) {
    // Seven bits a byte, so that no size looks like a frame sync.
    if (bytes[index]! > 0x7f) return 0
    size = size * 128 + bytes[index]!
  }
  const hasFooter = (bytes[at + 5]! & 0x10) !== 0
  return 10 + size + (hasFooter ? 10 : 0)
}

/**
 * Detects the audio format from its first bytes; its name and declared type are ignored.
 *
 * @param head the first bytes, 4 KiB or more unless the audio is shorter
 * @returns    `mp3` stands for MPEG audio of any layer, as .mpga files hold it, and for a tag whose end is
 *             not in `head`. `webm` stands for Matroska too. Null: none of the formats
 */
export function formByMagic(head: Uint8Array): AudioFormat | null {
  switch (latin1(head, 0, 4)) {
    case 'RIFF':
    case 'RF64':
      return waveForm(head)
    case 'OggS':
      return 'ogg'
    case 'fLaC':
      return 'flac'
    case EBML:
      return matroskaForm(head)
    default:
      return latin1(head, 4, 4) === 'ftyp' ? 'mp4' : mpegForm(head)
  }
}

function waveForm(head: Uint8Array): AudioFormat | null {
  return latin1(head, 8, 4) === 'WAVE' ? 'wav' : null
}

/** The DocType element is in the EBML header, which is some forty bytes long. */
function matroskaForm(head: Uint8Array): AudioFormat | null {
  const at = indexOf(head.subarray(0, 1024), '\x42\x82', 4)
  if (at < 0) return null
  const name = latin1(head, at + 3, (head[at + 2] ?? 0) & 0x7f)
  return /^(webm|matroska)\0*$/.test(name) ? 'webm' : null
}

/**
 * A part of a frame may come first, where the file was cut out of a stream. Among MPEG systems, which mix audio with
 * video, program streams (.mpeg, .mpg, .vob) are one of ours; transport streams (.ts) and bare video are not.
 */
function mpegForm(head: Uint8Array): AudioFormat | null {
  if (beginsAsProgramStream(head)) return 'mpeg'
  if (isMpegSystem(head)) return null
  let at = 0
  for (let tag = id3v2Bytes(head, at); tag > 0; tag = id3v2Bytes(head, at)) at += tag
  if (at === 0) return findMpegFrame(head, 0, MPEG_FRAME_MAX_BYTES) >= 0 ? 'mp3' : null
  return at + 4 > head.length ? 'mp3' : taggedForm(head.subarray(at))
}

const TRANSPORT_PACKET_BYTES = 188

/** A start code of a packet or a video sequence (ISO/IEC 13818-1, 2.4.3 and 2.5.3), or transport packets. */
function isMpegSystem(head: Uint8Array): boolean {
  const isStartCode = head[0] === 0 && head[1] === 0 && head[2] === 1 && (head[3] ?? 0) >= 0xb3
  const isTransport = [0, 1, 2].every((packet) => head[packet * TRANSPORT_PACKET_BYTES] === 0x47)
  return isStartCode || isTransport
}

/**
 * Detects the format that follows an ID3v2 tag, given the first `bytes` after the tag; null when such a tag does not
 * precede it.
 */
export function taggedForm(bytes: Uint8Array): 'mp3' | 'flac' | null {
  if (latin1(bytes, 0, 4) === 'fLaC') return 'flac'
  return findMpegFrame(bytes, 0, PADDING_MAX_BYTES) >= 0 ? 'mp3' : null
}
