import fc from 'fast-check'
import t from 'tap'
import { decodeUtf8, readUtf8 } from '../../src/contracts/utf8.ts'

/** Texts of several pieces, whose characters of one to four bytes fall on every place of a border between two. */
const texts = fc
  .tuple(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
    fc.constantFrom('', 'a', 'é', 'я', '中', '😀', '\ufeff', '\0', '"\\'),
    fc.constantFrom(10, 1_020, 1_024, 1_030, 262_140, 262_144, 262_147, 600_000),
  )
  .map(([unit, first, bytes]) => Buffer.from(first + unit.repeat(Math.ceil(bytes / Buffer.byteLength(unit)))))

const damage = fc.oneof(fc.constant([]), fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 }))
const cutBytes = fc.oneof(fc.constant(0), fc.nat(3))

t.test(
  'a text is decoded as the platform decodes it, and what is not UTF-8 is refused or replaced',
  async (t) => {
    const counts = { decoded: 0, refused: 0 }
    fc.assert(
      fc.property(texts, damage, cutBytes, (bytes, changes, cut) => {
        for (const [at, byte] of changes) bytes[at % bytes.length] = byte
        // Not the whole of its memory, and perhaps half of a character at its end.
        const part = bytes.subarray(0, bytes.length - cut)
        const lenient = new TextDecoder().decode(part)
        const isUtf8 = Buffer.from(lenient).equals(part) || Buffer.from(`\ufeff${lenient}`).equals(part)
        counts[isUtf8 ? 'decoded' : 'refused'] += 1
        return decodeUtf8(part) === (isUtf8 ? lenient : null) && readUtf8(part) === lenient
      }),
      { numRuns: 400 },
    )
    t.ok(counts.decoded > 60 && counts.refused > 60, JSON.stringify(counts))
  },
)
