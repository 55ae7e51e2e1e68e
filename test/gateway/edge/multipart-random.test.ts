import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { DEFAULT_LIMITS } from '../../../src/contracts/limits.ts'
import { parseHeaderValue } from '../../../src/gateway/edge/header-value.ts'
import { MultipartScanner } from '../../../src/gateway/edge/multipart.ts'
import { fragment, multipart, type Part } from '../../support/bodies.ts'

/** Content full of bytes that look like the delimiter, up to its last one, and never are. */
const contentOf = (boundary: string) =>
  fc
    .array(
      fc.oneof(
        fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
        fc
          .nat(boundary.length + 8)
          .map((length) => Buffer.from(`\r\n--${boundary}\r\n--`).subarray(0, length)),
        fc
          .constantFrom('\r', '\n', '\r\n', '-', '\r\n-', `\r\n--${boundary}x`, `\r\n--${boundary} -`)
          .map((text) => Buffer.from(text)),
      ),
      { maxLength: 12 },
    )
    .map((pieces) => Buffer.concat(pieces))
    .filter((content) => !holdsDelimiter(content, boundary))

const FORM = fc
  .constantFrom('x', 'lark', '----WebKitFormBoundaryAbC', 'aaaaaaaa', '--', 'q'.repeat(70))
  .chain((boundary) =>
    fc.record({
      boundary: fc.constant(boundary),
      before: fc.array(fc.string({ maxLength: 30 }), { maxLength: 4 }),
      audio: contentOf(boundary).filter((audio) => audio.length > 0),
      after: fc.array(fc.string({ maxLength: 30 }), { maxLength: 4 }),
      cuts: fc.array(fc.nat(2000), { maxLength: 40 }),
    }),
  )

t.test('finds every offset in random forms, however they are cut', async (t) => {
  const property = fc.property(FORM, ({ boundary, before, audio, after, cuts }) => {
    const field = (value: string): Part => ({ name: 'f', body: value })
    fc.pre(![...before, ...after].some((value) => holdsDelimiter(Buffer.from(value), boundary)))
    const parts = [...before.map(field), { name: 'file', body: audio }, ...after.map(field)]
    const { contentType, body, offsets } = multipart(parts, { boundary })
    const scanner = new MultipartScanner(parseHeaderValue(contentType)!, DEFAULT_LIMITS)
    for (const piece of fragment(body, cuts)) scanner.scan(piece)
    const { fields, source } = scanner.finish()
    if (fields.kind !== 'form' || source.kind !== 'audio') throw new Error('not a form with audio')
    assert.deepEqual([source.audio.offset, source.audio.length], [offsets[before.length], audio.length])
    assert.deepEqual(fields.values.get('f') ?? [], [...before, ...after])
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: 2000 }))
})

/** True if content holds a whole delimiter line, also with the line end before and after it. */
function holdsDelimiter(content: Buffer, boundary: string): boolean {
  const text = `\r\n${content.toString('latin1')}\r\n--${boundary}`
  const escaped = boundary.replace(/[^\w]/g, '\\$&')
  return new RegExp(`\\r\\n--${escaped}([ \\t]*\\r\\n|--([ \\t\\r\\n]))`).test(text)
}
