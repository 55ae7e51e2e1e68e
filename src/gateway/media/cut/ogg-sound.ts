import { indexOf, latin1, u16le, u32le } from '../bytes.ts'
import { type FlacStream, flacStream, readFrame } from '../flac.ts'
import { type Page, readPage, speexSamples, vorbisSamples } from '../ogg.ts'
import { type OggPacket, OggWriter } from '../ogg-writer.ts'
import { OPUS_RATE, opusSamples } from '../opus.ts'
import type { ByteStream } from './byte-stream.ts'
import { FrameNumbers, flacInfo, flacLevel } from './flac-sound.ts'
import type { Packet, Sound, SoundWriter } from './sound.ts'
import { BY_LOUDNESS, BY_SIZE, levelOfSize, Uncuttable } from './sound.ts'

/** A page at its largest: a header, its lengths, and their segments. */
const PAGE_MAX_BYTES = 27 + 255 + 255 * 255
/** Longest sound of a page that is written: players go from page to page. */
const PAGE_SECONDS = 0.5
/** Most packets of a page. */
const PAGE_PACKETS = 50
/** Pages that a packet may go over, and packets that may have to wait for the time of one. */
const PACKET_PAGES_MAX = 64
const UNTIMED_MAX = 4096
const OPUS_HEAD_BYTES = 19
const FLAC_INFO_AT = 17

interface Codec {
  readonly rate: number
  /** Ticks at the beginning that are not played. */
  readonly preSkip: number
  readonly drops: Pick<Sound, 'silenceDrop' | 'skipDrop'>
  /** Packets in front of the sound. */
  readonly headers: number
  /** Ticks of a packet, or where only its page tells: the least and the most that it has. */
  readonly ticks: ((bytes: Uint8Array) => number) | { readonly least: number; readonly most: number }
  level(packet: Packet): number
  /** The packet as a part has it. */
  renumber?(): (packet: Packet) => Uint8Array
  /** The packets in front, for a part of so many ticks. */
  heads(given: readonly Uint8Array[], ticks: number): readonly Uint8Array[]
}

/** Ogg with one stream of sound: packets are put on pages of their own, with new positions and checksums. */
export async function openOgg(stream: ByteStream): Promise<Sound> {
  const packets = readPackets(stream)
  const heads: Uint8Array[] = []
  let codec: Codec | null = null
  while (heads.length < (codec?.headers ?? 1)) {
    const next = await packets.next()
    if (next.done === true) throw new Uncuttable('no sound')
    heads.push(next.value.bytes.slice())
    codec ??= codecOf(heads[0]!)
  }
  const known = codec!
  return {
    rate: known.rate,
    startSeconds: -known.preSkip / known.rate,
    ...known.drops,
    level: known.level,
    packets: () => timed(packets, known),
    begin: () => new OggPartWriter(known, heads),
  }
}

interface PagePacket {
  readonly bytes: Uint8Array
  /** Position of the page, on the last packet that ends on it. */
  readonly position: number | null
}

/** Packets of the first stream of sound. */
async function* readPackets(stream: ByteStream): AsyncGenerator<PagePacket> {
  let serial: number | null = null
  let begun: Uint8Array[] = []
  let pages = 0
  for (;;) {
    const view = await stream.fill(PAGE_MAX_BYTES)
    if (view.length < 27) return
    const page = readPage(view, 0)
    if (page === null || page.bytes > view.length) {
      const found = indexOf(view, 'OggS', 1)
      stream.skip(found > 0 ? found : Math.max(1, view.length - 3))
      continue
    }
    if (page.isFirst && isSound(view, page)) {
      if (serial !== null) throw new Uncuttable('streams that follow one another')
      serial = page.serial
    }
    if (page.serial === serial) {
      pages += 1
      const isContinued = (view[5]! & 1) === 1
      const { ended, rest } = packetsOn(view, page, isContinued ? begun : [])
      begun = rest
      if (begun.length > PACKET_PAGES_MAX) throw new Uncuttable('a packet that does not end')
      for (const [index, bytes] of ended.entries())
        yield { bytes, position: index === ended.length - 1 ? page.position : null }
    }
    stream.skip(page.bytes)
    if (pages === 0 && stream.at > 64 * PAGE_MAX_BYTES) throw new Uncuttable('no sound')
  }
}

function isSound(view: Uint8Array, { contentAt }: Page): boolean {
  return codecName(view.subarray(contentAt)) !== null
}

function codecName(head: Uint8Array): 'opus' | 'vorbis' | 'flac' | 'speex' | null {
  if (latin1(head, 0, 8) === 'OpusHead') return 'opus'
  if (latin1(head, 0, 7) === '\x01vorbis') return 'vorbis'
  if (latin1(head, 0, 5) === '\x7fFLAC') return 'flac'
  return latin1(head, 0, 8) === 'Speex   ' ? 'speex' : null
}

/** @param begun pieces of a packet that began on the page before */
function packetsOn(view: Uint8Array, page: Page, begun: readonly Uint8Array[]) {
  const ended: Uint8Array[] = []
  let rest = [...begun]
  let at = page.contentAt
  let from = at
  for (let index = 27; index < page.contentAt; index += 1) {
    const length = view[index]!
    at += length
    if (length === 255) continue
    rest.push(view.subarray(from, at))
    ended.push(rest.length === 1 ? rest[0]! : Buffer.concat(rest))
    rest = []
    from = at
  }
  // The page is gone when the rest of the packet comes.
  if (at > from) rest.push(view.slice(from, at))
  return { ended, rest }
}

/** Packets with their lengths: the codec's own, or their page's in equal shares. */
async function* timed(packets: AsyncGenerator<PagePacket>, { ticks }: Codec): AsyncGenerator<Packet> {
  let waiting: Uint8Array[] = []
  let before: number | null = null
  for await (const { bytes, position } of packets) {
    if (typeof ticks === 'function') {
      yield { bytes, ticks: ticks(bytes) }
      continue
    }
    waiting.push(bytes.slice())
    if (position === null) {
      if (waiting.length > UNTIMED_MAX) throw new Uncuttable('packets without a time')
      continue
    }
    // A recording that began in a running stream does not begin at 0.
    before ??= Math.max(0, position - waiting.length * ticks.most)
    // As the length of the whole is told: positions alone would let a caller name the price of its parts.
    const share = Math.max(ticks.least, (position - before) / waiting.length)
    for (const one of waiting) yield { bytes: one, ticks: share }
    waiting = []
    before = position
  }
}

function codecOf(head: Uint8Array): Codec {
  const name = codecName(head)
  if (name === 'opus')
    return {
      rate: OPUS_RATE,
      preSkip: u16le(head, 10),
      drops: BY_SIZE,
      headers: 2,
      ticks: (bytes) => opusSamples(bytes, 0),
      level: sizeLevel(OPUS_RATE),
      heads: ([first]) => [opusHead(first!), emptyTags('OpusTags')],
    }
  if (name === 'flac') return flacCodec(head)
  const rate = u32le(head, name === 'vorbis' ? 12 : 36)
  if (name === null || rate === 0) throw new Uncuttable('another codec')
  const isVorbis = name === 'vorbis'
  const speexTicks = speexSamples(head)
  return {
    rate,
    preSkip: 0,
    drops: BY_SIZE,
    headers: isVorbis ? 3 : 2 + u32le(head, 68),
    ticks: isVorbis ? vorbisSamples(head[28] ?? 0) : () => speexTicks,
    level: sizeLevel(rate),
    heads: ([first, , ...others]) =>
      isVorbis ? [first!, emptyTags('\x03vorbis', [1]), ...others] : [first!, emptyTags(''), ...others],
  }
}

const sizeLevel =
  (rate: number) =>
  ({ bytes, ticks }: Packet) =>
    levelOfSize(bytes.length, ticks / rate)

/** The same, played from its first sample on: a part begins within the sound. */
function opusHead(whole: Uint8Array): Uint8Array {
  if (whole.length < OPUS_HEAD_BYTES) throw new Uncuttable('no facts of the stream')
  const head = Buffer.from(whole)
  head.writeUInt16LE(0, 10)
  return head
}

/** Tags with an empty vendor and no comments. */
function emptyTags(magic: string, end: readonly number[] = []): Uint8Array {
  return Buffer.concat([Buffer.from(magic, 'latin1'), Buffer.alloc(8), Buffer.from(end)])
}

function flacCodec(head: Uint8Array): Codec {
  const info = head.slice(FLAC_INFO_AT)
  const facts: FlacStream | null = flacStream(info)
  if (facts === null) throw new Uncuttable('no sample rate')
  return {
    rate: facts.sampleRate,
    preSkip: 0,
    drops: BY_LOUDNESS,
    headers: 1 + ((head[7] ?? 0) << 8) + (head[8] ?? 0),
    ticks: (bytes) => readFrame(bytes, 0, facts)?.samples ?? 0,
    level: ({ bytes, ticks }) => flacLevel(bytes.length, ticks, facts),
    renumber() {
      const numbers = new FrameNumbers(facts)
      return (packet) => numbers.next(packet)
    },
    heads: ([first, ...others], ticks) => [
      Buffer.concat([first!.subarray(0, FLAC_INFO_AT), flacInfo(info, ticks)]),
      ...others,
    ],
  }
}

class OggPartWriter implements SoundWriter {
  readonly #codec: Codec
  readonly #given: readonly Uint8Array[]
  readonly #renumber: ((packet: Packet) => Uint8Array) | undefined
  readonly #pages: OggWriter
  #waiting: OggPacket[] = []
  #waitingTicks = 0
  #waitingBytes = 0
  #ticks = 0
  #written = 0

  constructor(codec: Codec, given: readonly Uint8Array[]) {
    this.#codec = codec
    this.#given = given
    this.#renumber = codec.renumber?.()
    // The heads come first, and are made last: their pages have the first numbers.
    this.#pages = new OggWriter(SERIAL, this.#headPages(0).length)
  }

  get bytes(): number {
    return this.#written + this.#waitingBytes + this.#headBytes + PAGE_MAX_BYTES / 64
  }

  get #headBytes(): number {
    return this.#given.reduce((sum, head) => sum + head.length + 64, 0)
  }

  add(packet: Packet): readonly Uint8Array[] {
    const bytes = this.#renumber?.(packet) ?? packet.bytes.slice()
    this.#ticks += packet.ticks
    this.#waiting.push({ bytes, position: Math.round(this.#ticks) })
    this.#waitingTicks += packet.ticks
    this.#waitingBytes += bytes.length
    const isFull =
      this.#waiting.length >= PAGE_PACKETS || this.#waitingTicks >= PAGE_SECONDS * this.#codec.rate
    return isFull ? this.#flush(false) : []
  }

  end() {
    const tail = this.#flush(true)
    return { head: Buffer.concat(this.#headPages(this.#ticks)), tail }
  }

  #flush(isLast: boolean): readonly Uint8Array[] {
    if (this.#waiting.length === 0) return []
    const pages = pagesOf(this.#pages, this.#waiting, isLast)
    this.#written += pages.length
    this.#waiting = []
    this.#waitingTicks = 0
    this.#waitingBytes = 0
    return [pages]
  }

  /** One page for the first packet, and one for each of the others. */
  #headPages(ticks: number): Uint8Array[] {
    const writer = new OggWriter(SERIAL)
    const heads = this.#codec.heads(this.#given, ticks)
    return heads.map((bytes) => pagesOf(writer, [{ bytes, position: 0 }]))
  }
}

/** Any number does where there is one stream. */
const SERIAL = 0x4c61726b

function pagesOf(writer: OggWriter, packets: readonly OggPacket[], isLast = false): Uint8Array {
  try {
    return writer.pages(packets, isLast)
  } catch (error) {
    if (error instanceof RangeError) throw new Uncuttable(error.message)
    throw error
  }
}
