const HEADER_BYTES = 27
/** A page has at most so many lengths of segments. */
const SEGMENTS_MAX = 255
const FIRST = 0x02
const LAST = 0x04

/** A packet, and how many samples there are up to its end. */
export interface OggPacket {
  readonly bytes: Uint8Array
  readonly position: number
}

/** Writes the pages of one logical stream (RFC 3533), each of whole packets. */
export class OggWriter {
  readonly #serial: number
  #sequence: number

  /**
   * @param serial   32 bits, another one for every stream
   * @param sequence number of the first page: above 0 where others come in front
   */
  constructor(serial: number, sequence = 0) {
    this.#serial = serial
    this.#sequence = sequence
  }

  /** @param isLast the stream ends with the last of these packets */
  pages(packets: readonly OggPacket[], isLast = false): Uint8Array {
    const pages: Uint8Array[] = []
    for (let from = 0; from < packets.length; ) {
      let to = from
      let segments = 0
      while (to < packets.length && segments + segmentsOf(packets[to]!) <= SEGMENTS_MAX) {
        segments += segmentsOf(packets[to]!)
        to += 1
      }
      if (to === from) throw new RangeError('a packet is longer than a page')
      pages.push(this.#page(packets.slice(from, to), isLast && to === packets.length))
      from = to
    }
    return Buffer.concat(pages)
  }

  #page(packets: readonly OggPacket[], isLast: boolean): Uint8Array {
    const lengths = packets.flatMap(({ bytes: { length } }) => [
      ...new Array<number>(Math.floor(length / 255)).fill(255),
      length % 255,
    ])
    const header = Buffer.alloc(HEADER_BYTES + lengths.length)
    header.write('OggS', 0, 'latin1')
    header[5] = (this.#sequence === 0 ? FIRST : 0) | (isLast ? LAST : 0)
    header.writeBigUInt64LE(BigInt(packets.at(-1)!.position), 6)
    header.writeUInt32LE(this.#serial, 14)
    header.writeUInt32LE(this.#sequence, 18)
    header[26] = lengths.length
    header.set(lengths, HEADER_BYTES)
    this.#sequence += 1
    const page = Buffer.concat([header, ...packets.map(({ bytes }) => bytes)])
    page.writeUInt32LE(checksum(page), 22)
    return page
  }
}

function segmentsOf({ bytes }: OggPacket): number {
  return Math.floor(bytes.length / 255) + 1
}

const POLYNOMIAL = 0x04c1_1db7

const CHECKSUMS = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte << 24
  for (let bit = 0; bit < 8; bit += 1) sum = sum < 0 ? (sum << 1) ^ POLYNOMIAL : sum << 1
  return sum
})

/** CRC-32 of a page whose own checksum is zero: without reflection, from zero (RFC 3533 section 6). */
function checksum(page: Uint8Array): number {
  let sum = 0
  for (let at = 0; at < page.length; at += 1) sum = ((sum << 8) ^ CHECKSUMS[(sum >>> 24) ^ page[at]!]!) >>> 0
  return sum
}
