// Long audio out of short fixtures: the same frames, pages, clusters or fragments again and again, with their
// times moved on, so that the length is known by construction.
import { fixture } from './fixtures.ts'

/** Whole frames of variable bit rate without any header: 193 of 1152 samples at 44.1 kHz. */
const VBR = fixture('mp3-vbr-bare.mp3')
export const VBR_SECONDS = (193 * 1152) / 44_100

export function vbrMp3(times: number): Buffer {
  return Buffer.concat(Array.from({ length: times }, () => VBR))
}

/** The same behind a Xing header that counts `frames`, or the right number. */
export function xingMp3(times: number, frames = 193 * times): Buffer {
  const file = fixture('mp3-vbr-xing.mp3')
  const at = file.indexOf('Xing')
  const header = Buffer.from(file.subarray(0, file.indexOf(VBR.subarray(0, 64))))
  header.writeUInt32BE(frames, at + 8)
  return Buffer.concat([header, vbrMp3(times)])
}

/** 162 frames of 1152 samples at 44.1 kHz, 32 kbit/s. */
export const CBR_SECONDS = (162 * 1152) / 44_100
export function cbrMp3(times: number): Buffer {
  return Buffer.concat(Array.from({ length: times }, () => fixture('mp3-cbr-bare.mp3')))
}

/** An APEv2 tag of `bytes` with one item, behind it an ID3v1 tag. */
export function tagsAtEnd(bytes: number): Buffer {
  const item = Buffer.alloc(bytes, 'x')
  const mark = (flags: number) => {
    const part = Buffer.alloc(32)
    part.write('APETAGEX')
    part.writeUInt32LE(2000, 8)
    part.writeUInt32LE(item.length + 32, 12)
    part.writeUInt32LE(1, 16)
    part.writeUInt32LE(flags, 20)
    return part
  }
  const id3v1 = Buffer.alloc(128)
  id3v1.write('TAG')
  return Buffer.concat([mark(0xa0000000), item, mark(0x80000000), id3v1])
}

interface Atom {
  readonly type: string
  readonly bytes: Buffer
}

export function atomsOf(file: Buffer): Atom[] {
  const atoms: Atom[] = []
  for (let at = 0; at < file.length; ) {
    const size = file.readUInt32BE(at)
    atoms.push({ type: file.toString('latin1', at + 4, at + 8), bytes: file.subarray(at, at + size) })
    at += size
  }
  return atoms
}

/** An mp4 whose media data has so many more bytes: what comes behind it is out of the first range. */
export function withMediaData(name: string, more: number): Buffer {
  const atoms = atomsOf(fixture(name)).map(({ type, bytes }) => {
    if (type !== 'mdat') return bytes
    const longer = Buffer.concat([bytes, Buffer.alloc(more)])
    longer.writeUInt32BE(longer.length, 0)
    return longer
  })
  return Buffer.concat(atoms)
}

export const FRAGMENTS_TICKS = 6 * 44_100 + 1024
/** The fragments of a file `times` over, each round later by its length; `padding` more bytes in every `mdat`. */
export function fragmentedMp4(times: number, padding = 0): Buffer {
  const atoms = atomsOf(fixture('mp4-fragments.mp4'))
  const head = atoms.filter(({ type }) => type === 'ftyp' || type === 'moov').map(({ bytes }) => bytes)
  const rounds = Array.from({ length: times }, (_, round) =>
    atoms
      .filter(({ type }) => type === 'moof' || type === 'mdat')
      .map(({ type, bytes }) => (type === 'moof' ? later(bytes, round) : padded(bytes, padding))),
  )
  return Buffer.concat([...head, ...rounds.flat()])
}

function later(moof: Buffer, round: number): Buffer {
  const copy = Buffer.from(moof)
  const at = copy.indexOf('tfdt') + 4
  copy.writeBigUInt64BE(copy.readBigUInt64BE(at + 4) + BigInt(round * FRAGMENTS_TICKS), at + 4)
  return copy
}

function padded(mdat: Buffer, padding: number): Buffer {
  const copy = Buffer.concat([mdat, Buffer.alloc(padding)])
  copy.writeUInt32BE(copy.length, 0)
  return copy
}

const CLUSTER = Buffer.of(0x1f, 0x43, 0xb6, 0x75)
/** Unknown size: what recorders that never look back write. */
const UNKNOWN_SIZE = Buffer.of(0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
export const CLUSTERS_MS = 5_000

/** A recording without Duration, its clusters of unknown size, `times` over; `tail` is put behind the last block. */
export function recordedWebm(times: number, tail: Buffer = Buffer.alloc(0)): Buffer {
  const file = fixture('webm-live.webm')
  const starts: number[] = []
  for (let at = file.indexOf(CLUSTER); at >= 0; at = file.indexOf(CLUSTER, at + 4)) starts.push(at)
  const clusters = starts.map((start, index) => readCluster(file.subarray(start, starts[index + 1])))
  const rounds = Array.from({ length: times }, (_, round) =>
    clusters.map(({ timeMs, blocks }) => {
      const time = Buffer.of(0xe7, 0x84, 0, 0, 0, 0)
      time.writeUInt32BE(timeMs + round * CLUSTERS_MS, 2)
      return Buffer.concat([CLUSTER, UNKNOWN_SIZE, time, blocks])
    }),
  )
  return Buffer.concat([file.subarray(0, starts[0]), ...rounds.flat(), tail])
}

/** A Void element of so many bytes. */
export function voidElement(bytes: number): Buffer {
  const head = Buffer.of(0xec, 0x10, 0, 0, 0)
  head.writeUInt32BE(0x10000000 + bytes, 1)
  return Buffer.concat([head, Buffer.alloc(bytes)])
}

function readCluster(bytes: Buffer): { timeMs: number; blocks: Buffer } {
  const sizeBytes = Math.clz32(bytes[4]!) - 23
  const at = 4 + sizeBytes
  const length = bytes[at + 1]! & 0x7f
  const timeMs = bytes.readUIntBE(at + 2, length)
  return { timeMs, blocks: bytes.subarray(at + 2 + length) }
}

/**
 * An Ogg Opus stream with its pages of sound `times` over: four seconds each, less the pre-skip once.
 *
 * @param part of the positions that are true
 */
export function opusOgg(times: number, part = 1n): Buffer {
  const [head, tags, ...sound] = oggPages(fixture('ogg-opus-mono.ogg'))
  const length = 192_312n
  const pages = Array.from({ length: times }, (_, round) =>
    sound.map((page, index) => {
      const copy = Buffer.from(page)
      copy[5] = round === times - 1 && index === sound.length - 1 ? 4 : 0
      copy.writeBigInt64LE((copy.readBigInt64LE(6) + BigInt(round) * length) / part, 6)
      copy.writeUInt32LE(2 + round * sound.length + index, 18)
      return copy
    }),
  )
  return Buffer.concat([head!, tags!, ...pages.flat()])
}
export const OPUS_PRE_SKIP_SECONDS = 312 / 48_000

/** An Ogg file whose positions say that it is a hundredth as long. */
export function shortenedOgg(name: string): Buffer {
  const pages = oggPages(fixture(name)).map((page) => Buffer.from(page))
  for (const page of pages) page.writeBigInt64LE(page.readBigInt64LE(6) / 100n, 6)
  return Buffer.concat(pages)
}

/** An MP4 file each of whose samples lasts a tick by its table of times. */
export function hastyMp4(name: string): Buffer {
  const bytes = Buffer.from(fixture(name))
  const times = bytes.indexOf('stts')
  for (let entry = 0; entry < bytes.readUInt32BE(times + 8); entry += 1)
    bytes.writeUInt32BE(1, times + 16 + entry * 8)
  return bytes
}

function oggPages(bytes: Buffer): Buffer[] {
  const pages: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const next = bytes.indexOf('OggS', at + 4)
    const end = next < 0 ? bytes.length : next
    pages.push(bytes.subarray(at, end))
    at = end
  }
  return pages
}

/** A FLAC file with a picture block of so many bytes between STREAMINFO and the sound. */
export function picturedFlac(name: string, bytes: number): Buffer {
  const file = fixture(name)
  const block = Buffer.alloc(4 + bytes, 'x')
  block.writeUInt32BE(0x06000000 + bytes, 0)
  return Buffer.concat([file.subarray(0, 42), block, file.subarray(42)])
}

/** A wav with a chunk of so many bytes in front of its sound. */
export function chunkedWav(name: string, bytes: number): Buffer {
  const file = fixture(name)
  const chunk = Buffer.alloc(8 + bytes, 'x')
  chunk.write('junk')
  chunk.writeUInt32LE(bytes, 4)
  return Buffer.concat([file.subarray(0, 12), chunk, file.subarray(12)])
}

/** A file of which the chunk `fmt ` says what it is told to. */
export function wavOf(format: Buffer, sound: Uint8Array): Buffer {
  const head = Buffer.alloc(20)
  head.write('RIFF', 0)
  head.writeUInt32LE(28 + format.length + sound.length - 8, 4)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(format.length, 16)
  const data = Buffer.from('data\0\0\0\0')
  data.writeUInt32LE(sound.length, 4)
  return Buffer.concat([head, format, data, sound])
}

/** The end of a tag, APEv2, that claims so many bytes before it. */
export function tagOf(bytes: number): Buffer {
  const footer = Buffer.alloc(32)
  footer.write('APETAGEX')
  footer.writeUInt32LE(2000, 8)
  footer.writeUInt32LE(bytes, 12)
  return footer
}
